// Runs the example receiver's verify() over vectors.json; prints one JSON line: { checked, wrong: [...] }.
import { readFileSync } from "node:fs";
import { MemoryNonces, verify } from "../../examples/receiver.mjs";

const { tolerance_s: toleranceS, vectors } = JSON.parse(readFileSync(process.argv[2], "utf-8"));
const wrong = [];
for (const vector of vectors) {
  const nonces = new MemoryNonces();
  const options = { nonces, now: vector.now, toleranceS };
  const body = Buffer.from(vector.body_base64, "base64");
  const got = outcome(() => verify(vector.headers, body, vector.receiver_secrets, options));
  if (got !== vector.expect) wrong.push({ name: vector.name, expected: vector.expect, got });
  const again = outcome(() => verify(vector.headers, body, vector.receiver_secrets, options));
  const expectedAgain = vector.expect === "ok" ? "ReplayedNonce" : vector.expect;
  if (again !== expectedAgain) wrong.push({ name: `${vector.name} (again)`, expected: expectedAgain, got: again });
}
console.log(JSON.stringify({ checked: vectors.length, wrong }));

function outcome(step) {
  try {
    step();
    return "ok";
  } catch (error) {
    return error.code ?? String(error);
  }
}
