-- End jobs that are not running: cancelled, or past their lifetime. Compare-and-set on the version and state that were seen.
-- ARGV: now, then id, version, state seen, state to come, error. Returns 1 or 0 for each.
local now = time_us(ARGV[1])
local answers = {}
for i = 2, #ARGV, 5 do
  local id, target = ARGV[i], ENDED_IN[ARGV[i + 3]]
  local job = redis.call('HMGET', job_key(id), 'state', 'claim_version', 'entry', 'kind', 'list')
  local is_seen = job[1] == ARGV[i + 2] and (job[2] or '0') == ARGV[i + 1] and WAITING[job[1]]
  local wrong = is_seen and no_list(target)
  if wrong then return redis.error_reply('NOLIST ' .. wrong) end
  if is_seen then
    if job[1] == 'scheduled' then take_out(job[5], job[3], job[4]) else redis.call('ZREM', DUE, id) end
    redis.call('LPUSH', target, job[3])
    end_lifetime(id)
    redis.call('HSET', job_key(id), 'state', ARGV[i + 3], 'error', ARGV[i + 4], 'completed_at', whole(now),
      'updated_at', whole(now))
    count(job[4], job[1], -1)
    count(job[4], ARGV[i + 3], 1)
  end
  table.insert(answers, is_seen and '1' or '0')
end
write_lifetimes()
write_counts(now)
return answers
