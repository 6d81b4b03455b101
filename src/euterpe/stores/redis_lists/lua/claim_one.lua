-- The claim of a worker that waited with nothing to do: the first job of its lists, if it is as its submit left it.
-- Stands alone, as submit_one.lua does. False, with all in its place, where turn.lua has to look: a pause, a job that ran
-- before, one of another program or of another type, a key of another kind. Jobs set aside are found by the claim before
-- each wait. ARGV: now, worker, its processing list, its heartbeat key and how long that lives, ttl, three limits, how
-- many lists stand before the one that had a job the last time, how many types, types, lists.
-- A worker waits for this, so it makes few calls: an entry is moved before it is known, and back where it must stay.
-- And it answers with one string, as msgpack, or with the number of lists where it found nothing: Redis 6 writes every
-- table of an answer by a system call of its own, and the last of four is the one that brings the job.
local call, PREFIX = redis.call, KEYS[1]
local processing, first_type = ARGV[3], 12
local first_list = first_type + ARGV[11]
local first, paused = first_list + ARGV[10], PREFIX .. ':paused'
if call('EXISTS', paused, unpack(ARGV, first_list, first - 1)) > 0 then
  if call('EXISTS', paused) == 1 then return false end
  first = first_list
end
local list, entry, place
for i = first, #ARGV do
  list, place = ARGV[i], i - first_list
  entry = redis.pcall('LMOVE', list, processing, 'RIGHT', 'LEFT')
  if type(entry) == 'table' then return false end
  if entry then break end
end
if not entry then return tonumber(ARGV[10]) end
local function leave()
  call('LMOVE', processing, list, 'LEFT', 'RIGHT')
  return false
end

local id = string.match(entry, '^{"id":"([^"\\]+)"')
local key = PREFIX .. ':job:' .. (id or '')
local job = redis.pcall('HMGET', key, 'state', 'entry', 'kind', 'payload', 'seq', 'created_at', 'expires_at',
  'claim_version', 'visibility_us', 'timeout_us', 'run_at')
if job[1] ~= 'scheduled' or job[2] ~= entry or job[8] or not job[4] then return leave() end
local kind = job[3]
local job_type, is_known = kind and string.match(kind, '%z(.*)$'), first_list == first_type
for i = first_type, first_list - 1 do is_known = is_known or ARGV[i] == job_type end
local stamp = ARGV[1]
if stamp == '' then
  local clock = call('TIME')
  stamp = clock[1] .. string.sub('00000' .. clock[2], -6)
end
local now = tonumber(stamp)
if not (job_type and is_known) or (tonumber(job[7]) or 0) <= now then return leave() end

-- Numbers as text where that is at hand, and each written once: submit_one.lua says why.
local worker, ttl = ARGV[2], tonumber(ARGV[6])
local alive_until = string.format('%.0f', now + ttl)
local lease_us = math.min(ttl, job[9] or ARGV[7], (job[10] or ARGV[8]) + ARGV[9])
local lease = lease_us == ttl and alive_until or string.format('%.0f', now + lease_us)
call('HSET', key, 'state', 'running', 'claim_version', '1', 'attempt_count', '1', 'worker_id', worker,
  'lease_expires_at', lease, 'started_at', stamp)
local counts, scheduled = PREFIX .. ':counts', 'scheduled\0' .. kind
if call('HINCRBY', counts, scheduled, '-1') == 0 then call('HDEL', counts, scheduled) end
call('HINCRBY', counts, 'running\0' .. kind, '1')
call('SET', ARGV[4], alive_until, 'PX', ARGV[5])
call('SADD', PREFIX .. ':workers', worker)
local ARRAY_OF_12, BINARY = 0x9c, 0xc6
return struct.pack('>BBBI4c0BI4c0BI4c0BI4c0BI4c0BI4c0BI4c0BI4c0BI4c0BI4c0BI4c0', ARRAY_OF_12, place < 128 and place or 0,
  BINARY, #stamp, stamp, BINARY, #entry, entry, BINARY, #kind, kind, BINARY, #job[4], job[4], BINARY, #lease, lease,
  BINARY, #job[5], job[5], BINARY, #job[6], job[6], BINARY, #job[7], job[7], BINARY, #(job[9] or ''), job[9] or '',
  BINARY, #(job[10] or ''), job[10] or '', BINARY, #(job[11] or ''), job[11] or '')
