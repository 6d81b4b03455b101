-- Renew leases up to their deadline, and say that their workers live. ARGV: now, ttl, its milliseconds, defaults, leases.
local now = time_us(ARGV[1])
local ttl, heartbeat_key_ms = tonumber(ARGV[2]), ARGV[3]
local VISIBILITY, TIMEOUT, OVERRUN = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local answers, workers = {}, {}
for i = 7, #ARGV, 2 do
  local key = job_key(ARGV[i])
  local job = redis.call('HMGET', key, 'state', 'claim_version', 'started_at', 'timeout_us', 'visibility_us', 'worker_id',
    'cancel_version')
  local answer = { '', '0' }
  if job[1] == 'running' and job[2] == ARGV[i + 1] then
    local last = tonumber(job[3]) + (tonumber(job[4]) or TIMEOUT) + OVERRUN
    if last >= now then
      local expires_at = whole(math.min(now + math.min(ttl, tonumber(job[5]) or VISIBILITY), last))
      redis.call('HSET', key, 'lease_expires_at', expires_at, 'heartbeat_at', whole(now))
      workers[job[6]] = true
      answer = { expires_at, job[7] == job[2] and '1' or '0' }
    end
  end
  table.insert(answers, answer)
end
for worker in pairs(workers) do redis.call('SET', heartbeat_of(worker), whole(now + ttl), 'PX', heartbeat_key_ms) end
return answers
