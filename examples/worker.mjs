// A worker for Node 20 without any package: runs JavaScript functions for the jobs of a Euterpe control plane.
//
//   EUTERPE_URL=http://127.0.0.1:8080 EUTERPE_KEY=ek_... node examples/worker.mjs ./my-handlers.mjs
//
// my-handlers.mjs exports one function for each job type it can run:
//
//   export default {
//     "report.render": async (payload, job) => {
//       await job.progress(40, "halfway");        // shown in GET /jobs/{id}
//       job.signal.throwIfAborted();              // aborted on cancel, timeout, lost lease and shutdown
//       if (!payload.id) throw Object.assign(new Error("no id"), { permanent: true });
//       return { pages: 3 };                      // the job's result
//     },
//   };
//
// EUTERPE_QUEUES (default), EUTERPE_CONCURRENCY (4), EUTERPE_MAX_WAIT_MS (20000), EUTERPE_WORKER_ID.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { pathToFileURL } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.EUTERPE_URL ?? "http://127.0.0.1:8080";
const key = process.env.EUTERPE_KEY;
const queues = (process.env.EUTERPE_QUEUES ?? "default").split(",");
const concurrency = Number(process.env.EUTERPE_CONCURRENCY ?? 4);
const maxWaitMs = Number(process.env.EUTERPE_MAX_WAIT_MS ?? 20000);
// A restarted worker must never look like its dead self.
const workerId = `${process.env.EUTERPE_WORKER_ID ?? hostname()}:${randomUUID()}`;
const REPORT_TRIES = 8;

if (!key || process.argv.length !== 3) {
  console.error("usage: EUTERPE_KEY=ek_... node worker.mjs ./handlers.mjs");
  process.exit(2);
}
const { default: handlers } = await import(pathToFileURL(process.argv[2]).href);
const stopping = new AbortController();
const log = (...words) => console.error(new Date().toISOString().slice(11, 19), ...words);

async function post(path, body, { signal, timeoutMs = 15000 } = {}) {
  const timeout = AbortSignal.timeout(timeoutMs);
  const response = await fetch(`${url}/internal/worker/${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
  });
  return { status: response.status, body: await response.json() };
}

/** A report is safe to repeat: the same one again gets the first answer. */
async function report(path, body) {
  for (let attempt = 1; ; attempt++) {
    try {
      const answer = await post(path, body);
      if (answer.status < 500 && answer.status !== 429) return answer;
      if (attempt === REPORT_TRIES) return answer;
    } catch (error) {
      if (attempt === REPORT_TRIES) throw error;
    }
    await sleep(Math.min(100 * 2 ** attempt, 5000));
  }
}

class Job {
  #lease;
  #aborter = new AbortController();

  constructor(claimed) {
    const { job_id, attempt_id, lease_token, stream } = claimed;
    this.#lease = { worker_id: workerId, job_id, attempt_id, lease_token };
    this.message = { stream: stream.name, message_id: stream.message_id };
    Object.assign(this, { id: job_id, attemptId: attempt_id, type: claimed.type, attempt: claimed.attempt });
    this.payload = claimed.payload;
    this.checkpoint = claimed.checkpoint; // what the attempt before this one left
    this.intervalMs = claimed.heartbeat_interval_seconds * 1000;
    this.timeoutMs = claimed.timeout_seconds * 1000;
    this.signal = this.#aborter.signal;
    this.why = null;
  }

  get lease() {
    return { ...this.#lease, ...this.message };
  }

  stop(why) {
    this.why ??= why;
    this.#aborter.abort(new Error(why));
  }

  progress(percent, message = null) {
    return this.beat({ progress: { percent, message } });
  }

  saveCheckpoint(value) {
    return this.beat({ checkpoint: value });
  }

  stage(stage) {
    return this.beat({ stage });
  }

  async beat(news = {}) {
    const { status, body } = await post("heartbeat", { ...this.#lease, ...news });
    if (status === 409) this.stop("lost");
    else if (status === 200 && body.cancel_requested) this.stop("cancelled");
    else if (status !== 200 && Object.keys(news).length) throw new Error(body.detail ?? `heartbeat: ${status}`);
  }
}

async function run(claimed) {
  const job = new Job(claimed);
  const beating = setInterval(() => job.beat().catch(() => {}), job.intervalMs);
  const timer = setTimeout(() => job.stop("timeout"), job.timeoutMs);
  const onStop = () => job.stop("released");
  stopping.signal.addEventListener("abort", onStop);
  if (stopping.signal.aborted) onStop();
  let path = "fail";
  let outcome;
  try {
    const result = await Promise.race([handlers[job.type](job.payload, job), aborted(job.signal)]);
    [path, outcome] = ["complete", { result: result ?? null }];
  } catch (error) {
    outcome = failure(job, error);
  } finally {
    clearInterval(beating);
    clearTimeout(timer);
    stopping.signal.removeEventListener("abort", onStop);
  }
  if (job.why === "lost") return log(job.id, "lost its lease; nothing is reported");
  const { status } = await report(path, { ...job.lease, ...outcome });
  log(job.id, job.type, `attempt ${job.attempt}:`, path, job.why ?? "", `answered ${status}`);
}

function aborted(signal) {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
}

function failure(job, error) {
  if (job.why === "released") return { released: true };
  const category = { cancelled: "cancelled", timeout: "timeout" }[job.why] ?? (error.permanent ? "permanent" : "temporary");
  const clean = (text) => String(text).replaceAll("\0", "");
  return {
    error: {
      code: clean(error.code ?? error.name ?? "Error"),
      message: clean(error.message ?? error),
      stack: clean(error.stack ?? ""),
      retryable: category === "temporary" || category === "timeout",
      category,
    },
  };
}

async function main() {
  const running = new Set();
  log(`worker ${workerId} asks ${url} for`, Object.keys(handlers).join(", "));
  while (!stopping.signal.aborted) {
    if (running.size >= concurrency) await Promise.race(running);
    const ask = {
      worker_id: workerId,
      streams: queues,
      types: Object.keys(handlers),
      max_wait_ms: maxWaitMs,
      max_jobs: concurrency - running.size,
    };
    let answer;
    try {
      answer = await post("claim", ask, { signal: stopping.signal, timeoutMs: maxWaitMs + 15000 });
    } catch {
      if (!stopping.signal.aborted) await sleep(1000);
      continue;
    }
    if ([401, 403, 422].includes(answer.status)) throw new Error(`refused: ${answer.body.detail}`);
    if (answer.status !== 200) await sleep(1000);
    for (const claimed of answer.body.jobs ?? []) {
      const task = run(claimed)
        .catch((error) => log(claimed.job_id, "could not be reported; its lease will expire:", error.message))
        .finally(() => running.delete(task));
      running.add(task);
    }
  }
  await Promise.all(running);
  log("stopped");
}

for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => stopping.abort());
await main();
