// A peer without packages or store, for the Node side of the protocol: jobs are files in a folder.

import { mkdirSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { seen, serve } from '../../bench/peers/adapter.mjs';

serve((url) => {
  const folder = `${url.replace('sqlite://', '')}.jobs`;
  let written = 0;
  const jobs = () => readdirSync(folder).filter((name) => name.endsWith('.json'));
  return {
    async setup() {
      mkdirSync(folder);
    },
    async open() {},
    async submitOne(payloads) {
      for (const payload of payloads) {
        const file = join(folder, String(written++));
        writeFileSync(file, JSON.stringify(payload));
        renameSync(file, `${file}.json`); // a worker never sees half a job
      }
    },
    async submitBulk(payloads) {
      await this.submitOne(payloads);
    },
    async unfinished() {
      return jobs().length;
    },
    async work() {
      const loop = async () => {
        for (;;) {
          for (const name of jobs()) {
            seen(JSON.parse(readFileSync(join(folder, name), 'utf8')));
            unlinkSync(join(folder, name));
          }
          await sleep(1);
        }
      };
      loop();
    },
  };
});
