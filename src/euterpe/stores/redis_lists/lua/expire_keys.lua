-- Forget idempotency keys whose window is over, counted from the end of the last of their jobs. ARGV: now, limit.
local AGAIN = 60000000
local now = time_us(ARGV[1])
local gone = 0
local keys = redis.call('ZRANGEBYSCORE', PREFIX .. ':keys', '-inf', whole(now), 'LIMIT', 0, ARGV[2])
for _, name in ipairs(keys) do
  local stored = redis.call('HMGET', PREFIX .. ':key:' .. name, 'told', 'window')
  local good, told = pcall(cjson.decode, stored[1] or '[]')
  local held_until = 0
  for i = 1, good and #told or 0, 3 do
    local job = redis.call('HMGET', job_key(told[i]), 'seq', 'completed_at')
    local pruned = redis.call('ZSCORE', PREFIX .. ':tombstones', told[i])
    if job[1] and not job[2] then
      held_until = math.max(held_until, now + AGAIN)
    elseif job[2] or pruned then
      held_until = math.max(held_until, tonumber(job[2] or pruned) + tonumber(stored[2]))
    end
  end
  if held_until > now then
    redis.call('ZADD', PREFIX .. ':keys', whole(held_until), name)
  else
    redis.call('DEL', PREFIX .. ':key:' .. name)
    redis.call('ZREM', PREFIX .. ':keys', name)
    gone = gone + 1
  end
end
return { #keys, gone }
