-- Workers tell that they are alive; some of those that fell silent are forgotten. ARGV: now, then of each worker its id,
-- what it tells of itself, for how long it has been up, and after how much silence it counts as dead.
local ALIVE, TOLD, FORGOTTEN = PREFIX .. ':registry', PREFIX .. ':registry:told', 100
local now = time_us(ARGV[1])
for i = 2, #ARGV, 4 do
  local before = redis.call('HGET', TOLD, ARGV[i])
  local started_at = before and string.match(before, '^%d+') or whole(now - tonumber(ARGV[i + 2]))
  redis.call('HSET', TOLD, ARGV[i], started_at .. ' ' .. whole(now) .. ' ' .. ARGV[i + 1])
  redis.call('ZADD', ALIVE, whole(now + tonumber(ARGV[i + 3])), ARGV[i])
end
for _, silent in ipairs(redis.call('ZRANGEBYSCORE', ALIVE, '-inf', whole(now), 'LIMIT', 0, FORGOTTEN)) do
  -- One whose leases are renewed is there, and does not answer.
  if (tonumber(redis.call('GET', heartbeat_of(silent)) or '0') or 0) <= now then
    redis.call('HDEL', TOLD, silent)
    redis.call('ZREM', ALIVE, silent)
  end
end
