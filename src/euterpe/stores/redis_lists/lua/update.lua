-- Change what a requester may change: the entry, and with its priority the list. ARGV: id, version, state and entry as they
-- were seen, the new entry, the new list.
local id, seen, entry, list = ARGV[1], ARGV[4], ARGV[5], ARGV[6]
local job = redis.call('HMGET', job_key(id), 'state', 'claim_version', 'entry', 'list', 'seq', 'kind', 'worker_id')
if job[1] ~= ARGV[3] or (job[2] or '0') ~= ARGV[2] or job[3] ~= seen then return 0 end
local wrong = no_list(list)
if wrong then return redis.error_reply('NOLIST ' .. wrong) end
if job[1] == 'scheduled' then
  take_out(job[4], seen, job[6])
  put_back(list, entry, tonumber(job[5]))
elseif job[1] == 'running' or ENDED_IN[job[1]] then
  local holder = ENDED_IN[job[1]] or processing_of(job[7])
  local place = redis.call('LPOS', holder, seen)
  if place then redis.call('LSET', holder, place, entry) end
end
redis.call('HSET', job_key(id), 'entry', entry, 'list', list)
return 1
