-- A failed job that nobody will retry goes to the dead letters. ARGV: now, id, version.
local now, id = time_us(ARGV[1]), ARGV[2]
local job = redis.call('HMGET', job_key(id), 'state', 'claim_version', 'entry', 'kind')
if job[1] ~= 'failed' or (job[2] or '0') ~= ARGV[3] then return 0 end
local wrong = no_list(DEAD)
if wrong then return redis.error_reply('NOLIST ' .. wrong) end
redis.call('LREM', ENDED_IN.failed, 1, job[3])
redis.call('LPUSH', DEAD, job[3])
redis.call('HSET', job_key(id), 'state', 'dead_letter', 'updated_at', whole(now))
count(job[4], 'failed', -1)
count(job[4], 'dead_letter', 1)
write_counts(now)
return 1
