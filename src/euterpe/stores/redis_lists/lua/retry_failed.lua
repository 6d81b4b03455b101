-- An operator gives a failed job another go. ARGV: now, id, version. Returns 1, or 0 if it is not as it was seen.
local now, id = time_us(ARGV[1]), ARGV[2]
local job = redis.call('HMGET', job_key(id), 'state', 'claim_version', 'entry', 'kind', 'list', 'seq',
  'expires_at')
if job[1] ~= 'failed' or (job[2] or '0') ~= ARGV[3] then return 0 end
local wrong = no_list(job[5])
if wrong then return redis.error_reply('NOLIST ' .. wrong) end
redis.call('LREM', ENDED_IN.failed, 1, job[3])
put_back(job[5], job[3], tonumber(job[6]))
redis.call('HDEL', job_key(id), 'completed_at')
redis.call('HSET', job_key(id), 'state', 'scheduled', 'scheduled_at', whole(now), 'run_at', whole(now),
  'updated_at', whole(now))
begin_lifetime(id, tonumber(job[7]))
count(job[4], 'failed', -1)
count(job[4], 'scheduled', 1)
wake(job[5], 1)
write_lifetimes()
write_counts(now)
return 1
