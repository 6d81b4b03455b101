// graphile-worker on Postgres: batched fetch (localQueue) and batched completion. It deletes finished jobs.

import { load, seen, serve } from './adapter.mjs';

const { Logger, makeWorkerUtils, run } = load('graphile-worker');
const pg = load('pg');

const logger = new Logger(() => (level, message) => level === 'error' && console.error(message));

serve((connectionString, settings) => {
  let utils;
  let client;
  // It has no tags: they are in the payload.
  const tagged = (payload) => ({ ...payload, order: String(payload.number), tenant: String(payload.number % 100) });
  const shaped = (payload) => {
    switch (settings.shape) {
      case 'web':
        return { payload: { ...tagged(payload), visit: `visit-${payload.number}` }, jobKey: `request-${payload.number}` };
      case 'tagged':
        return { payload: tagged(payload) };
      case 'mixed':
        return { payload, priority: payload.number % 3 };
      case 'delayed':
        return { payload, runAt: new Date(Date.now() + 1000 * settings.due_after_s) };
      default:
        return { payload };
    }
  };
  return {
    async setup() {
      const once = await makeWorkerUtils({ connectionString, logger });
      await once.migrate();
      await once.release();
    },
    async open() {
      utils = await makeWorkerUtils({ connectionString, logger });
      client = new pg.Client({ connectionString });
      await client.connect();
    },
    async submitOne(payloads) {
      for (const each of payloads) {
        const { payload, ...spec } = shaped(each);
        await utils.addJob('noop', payload, spec);
      }
    },
    async submitBulk(payloads) {
      for (let at = 0; at < payloads.length; at += settings.submit_batch) {
        const batch = payloads.slice(at, at + settings.submit_batch);
        await utils.addJobs(batch.map((payload) => ({ identifier: 'noop', ...shaped(payload) })));
      }
    },
    async unfinished() {
      const { rows } = await client.query('SELECT count(*)::int AS left FROM graphile_worker._private_jobs');
      return rows[0].left;
    },
    async work() {
      await run({
        preset: {
          worker: {
            connectionString,
            logger,
            concurrentJobs: settings.concurrent_jobs,
            maxPoolSize: settings.pool_size,
            localQueue: { size: settings.local_queue },
            completeJobBatchDelay: settings.complete_batch_delay_ms,
            failJobBatchDelay: settings.complete_batch_delay_ms,
          },
        },
        noHandleSignals: true,
        taskList: { noop: async (payload) => seen(payload) },
      });
    },
  };
});
