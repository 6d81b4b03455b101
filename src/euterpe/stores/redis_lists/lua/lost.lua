-- What the processing list of a worker holds that has lost its worker. ARGV: now, worker, how long nobody else need look.
-- Returns whether it was looked at, ids of running jobs, and entries that no running job of this worker stands for.
local worker = ARGV[2]
local processing = processing_of(worker)
if no_list(processing) then return { 0, {}, {} } end
local is_alive = redis.call('EXISTS', heartbeat_of(worker)) == 1
if not is_alive and redis.call('EXISTS', processing) == 0 then
  redis.call('SREM', PREFIX .. ':workers', worker)
  return { 0, {}, {} }
end
-- A living worker may hold a job that it does not know of, because the answer to its claim got lost. One look at it does
-- for the sweeps of all processes.
if is_alive and ARGV[3] ~= '0' and not redis.call('SET', PREFIX .. ':looked:' .. worker, '1', 'NX', 'PX', ARGV[3]) then
  return { 0, {}, {} }
end
local now = time_us(ARGV[1])
local ids, entries = {}, {}
for _, entry in ipairs(redis.call('LRANGE', processing, 0, -1)) do
  local id = id_of(entry)
  local job = id and redis.pcall('HMGET', job_key(id), 'state', 'worker_id', 'lease_expires_at') or {}
  if job[1] == 'running' and job[2] == worker then
    if not is_alive or tonumber(job[3]) < now then table.insert(ids, id) end
  elseif not is_alive then
    table.insert(entries, entry)
  end
end
return { 1, ids, entries }
