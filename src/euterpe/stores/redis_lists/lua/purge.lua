-- Throw dead letters away, all or none. ARGV: now, ids. Returns the ids that were there, or what is no dead letter.
local now = time_us(ARGV[1])
local jobs = {}
for i = 2, #ARGV do
  local job = redis.call('HMGET', job_key(ARGV[i]), 'state', 'entry', 'kind', 'requester_id')
  if job[1] and job[1] ~= 'dead_letter' then return { 'refused', ARGV[i], job[1] } end
  if job[1] then table.insert(jobs, { ARGV[i], job }) end
end
local gone = { 'purged' }
for _, found in ipairs(jobs) do
  local id, job = found[1], found[2]
  redis.call('LREM', DEAD, 1, job[2])
  redis.call('DEL', job_key(id), attempts_key(id))
  redis.call('ZADD', PREFIX .. ':tombstones', whole(now), id)
  redis.call('HSET', PREFIX .. ':pruned', id, job[4] or 'local')
  count(job[3], 'dead_letter', -1)
  table.insert(gone, id)
end
write_counts(now)
return gone
