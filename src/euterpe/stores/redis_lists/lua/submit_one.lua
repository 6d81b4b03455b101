-- Store one job that can run at once, as most are. Stands alone: common.lua would cost it more than its own lines.
-- Answers when the job was stored, by this call or by one whose answer got lost. False, with nothing stored, where
-- submit.lua has to say what is wrong. ARGV: now, id, list, kind, lifetime, entry, payload, more fields of the record.
local call, PREFIX = redis.call, KEYS[1]
local id, list, kind, entry = ARGV[2], ARGV[3], ARGV[4], ARGV[6]
local key = PREFIX .. ':job:' .. id
local there = call('HGET', key, 'created_at')
if there then return there end
-- To write a number costs more than a call of Redis where the code for it has to be fetched from memory first.
local stamp = ARGV[1]
if stamp == '' then
  local clock = call('TIME')
  stamp = clock[1] .. string.sub('00000' .. clock[2], -6)
end
local expires_at = string.format('%.0f', stamp + ARGV[5])
local seq = redis.pcall('INCR', PREFIX .. ':seq')
if type(seq) == 'table' or type(redis.pcall('LPUSH', list, entry)) == 'table' then return false end
call('HSET', key, 'seq', seq, 'state', 'scheduled', 'kind', kind, 'list', list, 'created_at', stamp,
  'expires_at', expires_at, 'entry', entry, 'payload', ARGV[7], unpack(ARGV, 8))
call('ZADD', PREFIX .. ':lifetimes', expires_at, id)
call('HINCRBY', PREFIX .. ':counts', 'scheduled\0' .. kind, '1')
local TOKENS, wake = 16, list .. ':wake'
if call('LPUSH', wake, '1') > TOKENS then call('LPOP', wake) end
return stamp
