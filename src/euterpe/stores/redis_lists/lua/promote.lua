-- Delayed and retrying jobs whose time has come go back to their lists. ARGV: now, limit. Returns their queues.
local now = time_us(ARGV[1])
local queues, waiting = {}, {}
local due = redis.call('ZRANGEBYSCORE', DUE, '-inf', whole(now), 'LIMIT', 0, ARGV[2])
for _, id in ipairs(due) do
  local job = redis.call('HMGET', job_key(id), 'state', 'entry', 'kind', 'list', 'seq')
  local is_waiting = job[1] == 'delayed' or job[1] == 'retrying'
  if is_waiting and no_list(job[4]) then
    redis.call('ZADD', DUE, whole(now + 1000000), id)
  else
    redis.call('ZREM', DUE, id)
    if is_waiting then
      put_back(job[4], job[2], tonumber(job[5]))
      redis.call('HSET', job_key(id), 'state', 'scheduled', 'scheduled_at', whole(now), 'updated_at', whole(now))
      count(job[3], job[1], -1)
      count(job[3], 'scheduled', 1)
      waiting[job[4]] = (waiting[job[4]] or 0) + 1
      table.insert(queues, string.sub(job[3], 1, string.find(job[3], SEPARATOR, 1, true) - 1))
    end
  end
end
for list, jobs in pairs(waiting) do wake(list, jobs) end
write_counts(now)
return { #due, queues }
