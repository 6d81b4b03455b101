// A webhook receiver in plain Node (18 or newer, no packages): verifies everything, prints one JSON line per event.
//
//   EUTERPE_WEBHOOK_SECRET=whsec_... PORT=9000 node examples/receiver.mjs
//
// While a secret is being rotated, give both: EUTERPE_WEBHOOK_SECRET="whsec_new whsec_old".
// Answers 204 to what it accepts, 401 to what it does not trust. `verify` can be imported on its own.

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

const REQUIRED = ["x-euterpe-signature", "x-euterpe-timestamp", "x-euterpe-nonce", "x-euterpe-event-id"];
const SECOND_SIGNATURE = "x-euterpe-signature-2"; // only while a secret is being rotated
const REPLAY_WINDOW_S = 300;
const MAX_BODY_BYTES = 20 * 1024 * 1024;

export class VerificationError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** Remembers nonces until they expire. One process only; several receivers need a shared store (Redis: SET NX). */
export class MemoryNonces {
  #expiry = new Map();

  constructor(maxNonces = 1_000_000) {
    this.maxNonces = maxNonces;
  }

  seen(nonce, now, expiresAt) {
    if (this.#expiry.get(nonce) >= now) return true;
    if (this.#expiry.size >= this.maxNonces) this.#dropExpired(now);
    if (this.#expiry.size >= this.maxNonces) throw new VerificationError("NonceStoreFull", "too many nonces");
    this.#expiry.set(nonce, expiresAt);
    return false;
  }

  #dropExpired(now) {
    for (const [nonce, expiresAt] of this.#expiry) if (expiresAt < now) this.#expiry.delete(nonce);
  }
}

/** Headers in lower case (as Node gives them), the raw body as a Buffer, one secret or a list. */
export function verify(headers, body, secret, { nonces, now = Date.now() / 1000, toleranceS = 300 }) {
  for (const name of REQUIRED) {
    if (headers[name] === undefined) throw new VerificationError("MissingHeader", `${name} is missing`);
  }
  const timestamp = headers["x-euterpe-timestamp"];
  const nonce = headers["x-euterpe-nonce"];
  if (!/^[1-9][0-9]{0,10}$/.test(timestamp)) throw new VerificationError("MalformedHeader", "bad timestamp");
  // A dot in the nonce would let an attacker move the border between nonce and body, so the alphabet is fixed.
  if (!/^[A-Za-z0-9_-]{16,128}$/.test(nonce)) throw new VerificationError("MalformedHeader", "bad nonce");

  const presented = [headers["x-euterpe-signature"], headers[SECOND_SIGNATURE]].filter((one) => one !== undefined);
  let genuine = false;
  for (const one of [secret].flat()) {
    // The key is the secret exactly as printed, whsec_ included.
    const expected = createHmac("sha256", one).update(`${timestamp}.${nonce}.`).update(body).digest("hex");
    for (const candidate of presented) genuine = sameText(expected, candidate) || genuine;
  }
  if (!genuine) throw new VerificationError("InvalidSignature", "no known secret made this signature");

  if (Math.abs(Number(timestamp) - now) > toleranceS) {
    throw new VerificationError("StaleTimestamp", "outside the time window");
  }
  const event = parse(body);
  if (event.event_id !== headers["x-euterpe-event-id"]) {
    throw new VerificationError("EventIdMismatch", "the header's event id is not the body's");
  }
  // Last: what is not genuine must not use up a nonce.
  const expiresAt = Math.max(Number(timestamp) + toleranceS, now + REPLAY_WINDOW_S);
  if (nonces.seen(nonce, now, expiresAt)) throw new VerificationError("ReplayedNonce", "seen before");
  return event;
}

function sameText(expected, candidate) {
  const [a, b] = [Buffer.from(expected), Buffer.from(candidate)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function parse(body) {
  let event;
  try {
    event = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body));
  } catch {
    event = undefined;
  }
  if (typeof event !== "object" || event === null || typeof event.event_id !== "string") {
    throw new VerificationError("MalformedBody", "not a JSON object with an event_id");
  }
  return event;
}

async function readBody(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function serve(secrets, port) {
  const nonces = new MemoryNonces();
  const server = createServer(async (request, response) => {
    try {
      if (request.method !== "POST") return response.writeHead(405).end();
      const body = await readBody(request);
      if (body === null) return response.writeHead(413, { connection: "close" }).end();
      const event = verify(request.headers, body, secrets, { nonces });
      // The same event may come again (a lost answer, a crash): process each event_id once.
      console.log(JSON.stringify({ event_id: event.event_id, type: event.type, sequence: event.sequence }));
      response.writeHead(204).end();
    } catch (error) {
      if (!(error instanceof VerificationError)) {
        console.error(error);
        return response.writeHead(500).end();
      }
      console.error(JSON.stringify({ refused: error.code }));
      response.writeHead(error.code === "NonceStoreFull" ? 503 : 401).end();
    }
  });
  server.listen(port, "127.0.0.1", () => console.log(JSON.stringify({ listening: server.address().port })));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const secrets = (process.env.EUTERPE_WEBHOOK_SECRET ?? "").split(/\s+/).filter(Boolean);
  if (secrets.length === 0) {
    console.error("EUTERPE_WEBHOOK_SECRET is not set");
    process.exit(2);
  }
  serve(secrets, Number(process.env.PORT ?? 9000));
}
