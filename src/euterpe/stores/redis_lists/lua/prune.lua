-- Forget ended jobs of one state that were kept long enough; the oldest are at the end of their list. A tombstone stays.
-- ARGV: now, state, how long they are kept, limit. Returns how many went, and how many were looked at.
local now, list = time_us(ARGV[1]), ENDED_IN[ARGV[2]]
local gone, looked = 0, 0
while looked < tonumber(ARGV[4]) do
  local entry = redis.call('LINDEX', list, -1)
  if not entry then break end
  looked = looked + 1
  local id = id_of(entry)
  local job = id and redis.pcall('HMGET', job_key(id), 'state', 'completed_at', 'kind', 'requester_id') or {}
  if job[1] ~= ARGV[2] then
    redis.call('RPOPLPUSH', list, list) -- What no job stands for is an operator's to look at.
  elseif tonumber(job[2] or '0') + tonumber(ARGV[3]) > now then
    break
  else
    redis.call('RPOP', list)
    redis.call('DEL', job_key(id), attempts_key(id))
    end_lifetime(id)
    redis.call('ZADD', PREFIX .. ':tombstones', whole(now), id)
    redis.call('HSET', PREFIX .. ':pruned', id, job[4] or 'local')
    count(job[3], ARGV[2], -1)
    gone = gone + 1
  end
end
write_lifetimes()
write_counts(now)
return { gone, looked }
