-- Ask the claim that was seen to stop. ARGV: id, version.
local job = redis.call('HMGET', job_key(ARGV[1]), 'state', 'claim_version')
if job[1] ~= 'running' or job[2] ~= ARGV[2] then return 0 end
redis.call('HSET', job_key(ARGV[1]), 'cancel_version', ARGV[2])
return 1
