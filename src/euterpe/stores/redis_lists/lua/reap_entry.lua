-- Take back an entry that a lost worker's processing list holds and that no running job of that worker stands for:
-- another program's, or one that was moved by hand. ARGV: worker, entry, the list to go back to (none: dead letters).
local processing = processing_of(ARGV[1])
if redis.call('EXISTS', heartbeat_of(ARGV[1])) == 1 then return 'alive' end
local id = id_of(ARGV[2])
local job = id and redis.pcall('HMGET', job_key(id), 'state', 'worker_id', 'entry', 'list')
if job and job.err then job = nil end
if job and job[1] == 'running' and job[2] == ARGV[1] then return 'runs' end
local target = job and job[1] and job[4] or ARGV[3] ~= '' and ARGV[3] or DEAD
local wrong = no_list(target)
if wrong then return redis.error_reply('NOLIST ' .. wrong) end
if redis.call('LREM', processing, -1, ARGV[2]) == 0 then return 'gone' end
if job and job[1] and (job[1] ~= 'scheduled' or job[3] ~= ARGV[2]) then return 'copy' end
redis.call('LPUSH', target, ARGV[2])
wake(target, 1)
return target == DEAD and 'dead_letter' or 'requeued'
