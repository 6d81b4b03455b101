-- Forget tombstones that were kept long enough. ARGV: now, how long, limit. Returns how many went.
local until_us = time_us(ARGV[1]) - tonumber(ARGV[2])
local ids = redis.call('ZRANGEBYSCORE', PREFIX .. ':tombstones', '-inf', whole(until_us), 'LIMIT', 0, ARGV[3])
for _, id in ipairs(ids) do
  redis.call('ZREM', PREFIX .. ':tombstones', id)
  redis.call('HDEL', PREFIX .. ':pruned', id)
end
return #ids
