// BullMQ on Redis: concurrent async jobs, finished jobs removed.

import { load, seen, serve } from './adapter.mjs';

const { Queue, Worker } = load('bullmq');
const Redis = load('ioredis');

serve((url, settings) => {
  const connect = () => new Redis(url, { maxRetriesPerRequest: null });
  const options = { removeOnComplete: true };
  let queue;
  return {
    async setup() {},
    async open() {
      queue = new Queue('noop', { connection: connect() });
      await queue.waitUntilReady();
    },
    async submitOne(payloads) {
      for (const payload of payloads) await queue.add('noop', payload, options);
    },
    async submitBulk(payloads) {
      for (let at = 0; at < payloads.length; at += settings.submit_batch) {
        const batch = payloads.slice(at, at + settings.submit_batch);
        await queue.addBulk(batch.map((data) => ({ name: 'noop', data, opts: options })));
      }
    },
    async unfinished() {
      const counts = await queue.getJobCounts('wait', 'active', 'prioritized', 'delayed');
      return Object.values(counts).reduce((sum, count) => sum + count, 0);
    },
    async work() {
      const worker = new Worker('noop', async (job) => seen(job.data), {
        connection: connect(),
        concurrency: settings.concurrency,
      });
      worker.on('error', console.error);
      await worker.waitUntilReady();
    },
  };
});
