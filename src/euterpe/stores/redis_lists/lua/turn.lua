-- Settle what a worker has finished, then move the next jobs into its processing list: one step for both.
-- ARGV: now, reports with their fields, then the request.
local at = 0
local function take() at = at + 1; return ARGV[at] end
local now = time_us(take())
local stamp = whole(now)
local SETTLED = { 'state', 'claim_version', 'worker_id', 'entry', 'kind', 'stage', 'cancel_version', 'attempt_count',
  'release_count', 'started_at', 'transitions', 'seq', 'list', 'lease_expires_at' }
local emptied = {}

-- A settlement that is repeated after a lost answer is accepted again if it closed the attempt in just this way.
local function confirmed(r, job)
  if r.state == 'completed' and job[1] == 'completed' and job[2] == r.version then return 'completed' end
  if r.state == 'completed' then return '' end
  for _, line in ipairs(redis.call('LRANGE', attempts_key(r.id), 0, -1)) do
    local closed = cjson.decode(line)
    if closed.claim_version == r.version and closed.outcome == r.outcome and (closed.error or '') == r.error then
      return closed.state
    end
  end
  return ''
end

local function settle(r)
  local job = redis.call('HMGET', job_key(r.id), unpack(SETTLED))
  if job[1] ~= 'running' or job[2] ~= r.version then return r.lost == '' and confirmed(r, job) or '' end
  if r.lost ~= '' then
    -- A sweep: only what has lost its worker, by the heartbeat or by its own lease.
    if redis.call('EXISTS', heartbeat_of(job[3])) == 1 and tonumber(job[14]) >= now then return '' end
  end
  if r.last_stage ~= '' and (job[6] or 'claimed') ~= r.last_stage then return 'stage:' .. (job[6] or 'claimed') end
  local state = r.state
  if job[7] == r.version and (state == 'retrying' or state == 'scheduled') then state = 'cancelled' end
  local target = ENDED_IN[state] or (state == 'scheduled' and job[13])
  local wrong = target and no_list(target)
  if wrong then return 'no_list:' .. wrong end

  local key = job_key(r.id)
  local entry = job[4]
  if r.retries ~= '' then entry = string.gsub(entry, '"retries":%d+', '"retries":' .. r.retries, 1) end
  local fields = { 'state', state, 'transitions', (tonumber(job[11]) or 0) + (state == 'dead_letter' and 2 or 1),
    'updated_at', stamp }
  local function set(name, value) table.insert(fields, name); table.insert(fields, value) end
  if entry ~= job[4] then set('entry', entry) end
  if r.error ~= '' then set('error', r.error) elseif state == 'completed' then redis.call('HDEL', key, 'error') end
  if r.has_result == '1' then set('result', r.result) end
  if r.refund == '1' then
    set('attempt_count', tonumber(job[8]) - 1)
    set('release_count', (tonumber(job[9]) or 0) + 1)
  end
  if r.take_away == '1' then set('claim_version', tonumber(job[2]) + 1) end
  local processing = processing_of(job[3])
  redis.call('LREM', processing, -1, job[4])
  emptied[job[3]] = true
  if state == 'retrying' then
    set('run_at', whole(now + tonumber(r.delay)))
    redis.call('ZADD', DUE, whole(now + tonumber(r.delay)), r.id)
  elseif state == 'scheduled' then
    set('scheduled_at', stamp)
    put_back(job[13], entry, tonumber(job[12]))
    wake(job[13], 1)
  else
    set('completed_at', stamp)
    redis.call('LPUSH', target, entry)
    redis.call('ZREM', LIFETIMES, r.id)
  end
  redis.call('HSET', key, unpack(fields))
  if state ~= 'completed' then
    close_attempt(r.id, r.version, tonumber(job[8]), job[3], job[10], now, r.outcome, state, r.error ~= '' and r.error or nil)
  end
  count(job[5], 'running', -1)
  count(job[5], state, 1)
  return state
end

local states = {}
for _ = 1, tonumber(take()) do
  table.insert(states, settle({
    id = take(), version = take(), state = take(), outcome = take(), has_result = take(), result = take(),
    error = take(), delay = take(), refund = take(), take_away = take(), retries = take(), last_stage = take(),
    lost = take() }))
end

-- --- claim ------------------------------------------------------------------------------------------
local limit = tonumber(take())
local worker = take()
local claims, odd = {}, {}

local function finish()
  for name in pairs(emptied) do
    if redis.call('EXISTS', processing_of(name)) == 0 then redis.call('DEL', heartbeat_of(name)) end
  end
  write_counts()
  return { stamp, states, claims, odd }
end
if limit == 0 then return finish() end

local ttl, beat_ms = tonumber(take()), take()
local VISIBILITY, TIMEOUT, OVERRUN = tonumber(take()), tonumber(take()), tonumber(take())
local foreign_type, foreign_lifetime = take(), tonumber(take())
local wanted, any_type = {}, true
for _ = 1, tonumber(take()) do any_type = false; wanted[take()] = true end
if take() == '1' then any_type = true end
local paused = {}
for _, name in ipairs(redis.call('SMEMBERS', PREFIX .. ':paused')) do paused[name] = true end
local processing = processing_of(worker)
local wrong = no_list(processing)
if wrong then return redis.error_reply('NOLIST ' .. wrong) end
local TAKEN = { 'state', 'entry', 'kind', 'claim_version', 'attempt_count', 'expires_at', 'visibility_us', 'timeout_us',
  'transitions', 'payload', 'seq', 'release_count', 'run_at', 'created_at', 'scheduled_at', 'error', 'checkpoint',
  'cancel_version' }

local function may_run(job_type)
  return (any_type or wanted[job_type]) and not paused['type' .. SEPARATOR .. job_type]
end

local function tell_odd(what, entry) table.insert(odd, what); table.insert(odd, string.sub(entry, 1, 200)) end

-- A job that another program put there: it has no record yet.
local function adopt(list, entry)
  local good, said = pcall(cjson.decode, entry)
  if not good or type(said) ~= 'table' or type(said.id) ~= 'string' or said.id == '' or #said.id > 200
    or string.find(said.id, '\0', 1, true) then return nil end
  local key = job_key(said.id)
  if redis.call('EXISTS', key) == 1 then return said.id end
  local job_type = type(said.type) == 'string' and said.type ~= '' and said.type or foreign_type
  redis.call('HSET', key, 'seq', redis.call('INCR', PREFIX .. ':seq'), 'state', 'scheduled', 'entry', entry,
    'kind', list .. SEPARATOR .. job_type, 'list', list, 'created_at', stamp, 'expires_at', whole(now + foreign_lifetime))
  redis.call('ZADD', LIFETIMES, whole(now + foreign_lifetime), said.id)
  count(list .. SEPARATOR .. job_type, 'scheduled', 1)
  return said.id
end

-- The entry is in the processing list already. False: it went on to where it belongs.
local function begin(list, entry, is_aside)
  local id = string.match(entry, '^{"id":"([^"\\]+)"')
  local job = id and redis.pcall('HMGET', job_key(id), unpack(TAKEN))
  if not id or job.err or not job[1] then
    id = not (job and job.err) and adopt(list, entry)
    if not id then
      redis.call('LPOP', processing)
      redis.call('LPUSH', DEAD, entry)
      tell_odd('unreadable', entry)
      return false
    end
    job = redis.call('HMGET', job_key(id), unpack(TAKEN))
  end
  if (job[1] == 'dead_letter' or job[1] == 'failed') and job[2] == entry then
    -- Somebody moved it back by hand: it starts anew.
    redis.call('LREM', ENDED_IN[job[1]], 1, entry)
    redis.call('HDEL', job_key(id), 'completed_at')
    redis.call('HSET', job_key(id), 'state', 'scheduled', 'expires_at', whole(now + foreign_lifetime))
    redis.call('ZADD', LIFETIMES, whole(now + foreign_lifetime), id)
    count(job[3], job[1], -1)
    count(job[3], 'scheduled', 1)
    job[1], job[5], job[6] = 'scheduled', '0', now + foreign_lifetime
  end
  if job[1] ~= 'scheduled' or job[2] ~= entry then
    -- Its job runs or has ended otherwise: this is a copy.
    redis.call('LPOP', processing)
    tell_odd('copy', entry)
    return false
  end
  local job_type = type_of(job[3])
  if not is_aside and not may_run(job_type) then
    redis.call('LPOP', processing)
    redis.call('LPUSH', aside_of(list, job_type), entry)
    redis.call('SADD', list .. ':types', job_type)
    return false
  end
  if tonumber(job[6]) <= now then
    redis.call('LPOP', processing)
    redis.call('LPUSH', aside_of(list, job_type), entry)
    redis.call('SADD', list .. ':types', job_type)
    return false
  end
  local version, attempt = (tonumber(job[4]) or 0) + 1, (tonumber(job[5]) or 0) + 1
  local transitions = (tonumber(job[9]) or 0) + 1
  local timeout = tonumber(job[8]) or TIMEOUT
  local lease = whole(now + math.min(ttl, tonumber(job[7]) or VISIBILITY, timeout + OVERRUN))
  redis.call('HSET', job_key(id), 'state', 'running', 'claim_version', version, 'attempt_count', attempt,
    'worker_id', worker, 'lease_expires_at', lease, 'started_at', stamp, 'updated_at', stamp, 'transitions', transitions)
  if version > 1 then redis.call('HDEL', job_key(id), 'progress', 'progress_message', 'stage', 'heartbeat_at') end
  count(job[3], 'scheduled', -1)
  count(job[3], 'running', 1)
  table.insert(claims, { entry, job[3], job[10], version, attempt, lease, transitions, job[7], job[8], whole(tonumber(job[6])), job[11],
    job[12], job[13], job[14], job[15], job[16], job[17], job[18] })
  return true
end

local function from(list, source, is_aside)
  local looked = redis.call('LLEN', source)
  while #claims < limit and looked > 0 do
    local entry = redis.call('RPOPLPUSH', source, processing)
    if not entry then return end
    begin(list, entry, is_aside)
    looked = looked - 1
  end
end

for _ = 1, tonumber(take()) do
  local queue, lists = take(), tonumber(take())
  local is_open = not paused['queue' .. SEPARATOR .. queue]
  for _ = 1, lists do
    local list = take()
    local broken = is_open and #claims < limit and no_list(list)
    if broken then
      tell_odd('no_list', broken)
    elseif is_open and #claims < limit then
      for _, job_type in ipairs(redis.call('SMEMBERS', list .. ':types')) do
        if may_run(job_type) and #claims < limit then
          from(list, aside_of(list, job_type), true)
          if redis.call('EXISTS', aside_of(list, job_type)) == 0 then redis.call('SREM', list .. ':types', job_type) end
        end
      end
      from(list, list, false)
    end
  end
end
if #claims > 0 then
  redis.call('SET', heartbeat_of(worker), whole(now + ttl), 'PX', beat_ms)
  redis.call('SADD', PREFIX .. ':workers', worker)
end
return finish()
