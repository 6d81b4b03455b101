// The Node side of the protocol that serve.py and adapter.py speak: `node PEER.mjs URL SETTINGS_JSON`.
// A peer calls serve() with an object of setup, open, submitOne, submitBulk, unfinished and work.

import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

// The peer's packages lie in its own environment, which is the working directory, not beside this file.
export const load = createRequire(join(process.cwd(), 'package.json'));

const REPORT_EVERY_MS = 20;
const POLL_EVERY_MS = 2;
const PADDING = 'x'.repeat(52);

// CLOCK_MONOTONIC, the same clock as Python's time.monotonic_ns().
const nowNs = () => process.hrtime.bigint();

const makePayload = (number, sentNs = 0n) => ({ number, sent_ns: String(sentNs), padding: PADDING });

const send = (message) => writeSync(1, JSON.stringify(message) + '\n');

// Peers that print would break the protocol.
console.log = console.info = console.debug = console.error;

let started = 0;
let firstNs = 0n;
let latenciesUs = [];
let reportPending = false;

// A handler's whole body.
export function seen(payload) {
  const now = started === 0 || payload.sent_ns !== '0' ? nowNs() : 0n;
  if (started === 0) firstNs = now;
  started += 1;
  if (payload.sent_ns !== '0') latenciesUs.push(Number(now - BigInt(payload.sent_ns)) / 1000);
  if (!reportPending) {
    reportPending = true;
    setTimeout(report, REPORT_EVERY_MS);
  }
}

function report() {
  reportPending = false;
  send({ started, first_ns: Number(firstNs), latencies_us: latenciesUs.splice(0) });
}

async function timedSubmit(submit, jobs) {
  const payloads = Array.from({ length: jobs }, (_, number) => makePayload(number));
  const start = nowNs();
  await submit(payloads);
  return { seconds: Number(nowNs() - start) / 1e9 };
}

async function submitPaced(peer, perSecond, jobs) {
  const start = performance.now();
  for (let number = 0; number < jobs; number += 1) {
    await sleep(Math.max(0, start + (1000 * number) / perSecond - performance.now()));
    await peer.submitOne([makePayload(number, nowNs())]);
  }
  return { seconds: (performance.now() - start) / 1000 };
}

async function awaitDrained(peer, timeoutS) {
  const deadline = performance.now() + timeoutS * 1000;
  for (let left; (left = await peer.unfinished()); ) {
    if (performance.now() > deadline) throw new Error(`${left} jobs are still unfinished after ${timeoutS} s`);
    await sleep(POLL_EVERY_MS);
  }
  return { drained_ns: Number(nowNs()) };
}

async function obey(peer, command) {
  switch (command.do) {
    case 'hello':
      return {};
    case 'setup':
      await peer.setup();
      return {};
    case 'open':
      await peer.open();
      return {};
    case 'submit_one':
      return timedSubmit((payloads) => peer.submitOne(payloads), command.jobs);
    case 'submit_bulk':
      return timedSubmit((payloads) => peer.submitBulk(payloads), command.jobs);
    case 'submit_paced':
      return submitPaced(peer, command.per_second, command.jobs);
    case 'await_drained':
      return awaitDrained(peer, command.timeout_s);
    case 'work':
      await peer.work();
      return {};
    default:
      throw new Error(`unknown command ${command.do}; see bench/README.md for the protocol`);
  }
}

export async function serve(makePeer) {
  const peer = makePeer(process.argv[2], JSON.parse(process.argv[3]));
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      send({ ok: await obey(peer, JSON.parse(line)) });
    } catch (error) {
      send({ error: String(error?.stack ?? error) });
    }
  }
  process.exit(0); // the end of stdin ends the process, so no child outlives the harness
}
