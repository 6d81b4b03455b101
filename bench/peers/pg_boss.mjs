// pg-boss on Postgres: large batches, short polling. Finished jobs stay in the table, as by default.

import { load, seen, serve } from './adapter.mjs';

const PgBoss = load('pg-boss');
const pg = load('pg');

serve((connectionString, settings) => {
  const boss = new PgBoss({ connectionString });
  let client;
  boss.on('error', console.error);
  return {
    async setup() {
      await boss.start();
      await boss.createQueue('noop');
      await boss.stop();
    },
    async open() {
      await boss.start();
      client = new pg.Client({ connectionString });
      await client.connect();
    },
    async submitOne(payloads) {
      for (const payload of payloads) await boss.send('noop', payload);
    },
    async submitBulk(payloads) {
      for (let at = 0; at < payloads.length; at += settings.submit_batch) {
        const batch = payloads.slice(at, at + settings.submit_batch);
        await boss.insert(batch.map((data) => ({ name: 'noop', data })));
      }
    },
    async unfinished() {
      const { rows } = await client.query(
        "SELECT count(*)::int AS left FROM pgboss.job WHERE name = 'noop' AND state < 'completed'",
      );
      return rows[0].left;
    },
    async work() {
      await boss.start();
      await boss.work(
        'noop',
        { batchSize: settings.batch_size, pollingIntervalSeconds: settings.poll_s },
        async (jobs) => {
          for (const job of jobs) seen(job.data);
        },
      );
    },
  };
});
