-- Store units of jobs, each whole or not at all. A job that is there already was stored by a call whose answer got lost.
-- ARGV: now, then for each unit its parent and version, its keys, its jobs.
local at = 0
local function take() at = at + 1; return ARGV[at] end
local now = time_us(take())

local function key_name(key) return PREFIX .. ':key:' .. key end

-- Until the window is over, counted from the end of the job, or from its pruning.
local function holds_key(id, window)
  local ended = redis.call('HMGET', job_key(id), 'seq', 'completed_at')
  if ended[1] then return not ended[2] or tonumber(ended[2]) + window > now end
  local pruned = redis.call('ZSCORE', PREFIX .. ':tombstones', id)
  return pruned and tonumber(pruned) + window > now
end

local function known(key)
  local stored = redis.call('HMGET', key_name(key), 'hash', 'told', 'expires_at', 'window')
  if not stored[1] then return nil end
  local told = cjson.decode(stored[2])
  local held = tonumber(stored[3]) > now
  for i = 1, #told, 3 do held = held or holds_key(told[i], tonumber(stored[4])) end
  if held then return { hash = stored[1], told = told } end
end

local function read_unit()
  local unit = { parent = take(), version = take(), keys = {}, jobs = {} }
  for _ = 1, tonumber(take()) do
    table.insert(unit.keys, { name = take(), hash = take(), window = tonumber(take()), job = tonumber(take()) })
  end
  for _ = 1, tonumber(take()) do
    table.insert(unit.jobs, {
      id = take(), list = take(), kind = take(), requester = take(), delay = take(), run_at = take(), lifetime = tonumber(take()),
      visibility = take(), timeout = take(), entry = take(), payload = take() })
  end
  return unit
end

local function refusal(unit)
  if unit.parent ~= '' then
    local parent = redis.call('HMGET', job_key(unit.parent), 'state', 'claim_version')
    if parent[1] ~= 'running' or parent[2] ~= unit.version then return { 'stale' } end
  end
  for _, key in ipairs(unit.keys) do
    local found = known(key.name)
    if found and found.hash ~= key.hash then return { 'conflict', key.name, found.told[1] } end
    if found and key.job == 0 then return { 'replayed', unpack(found.told) } end
    if found then unit.jobs[key.job].told = found.told end
  end
  for i, job in ipairs(unit.jobs) do
    if not job.told then
      local wrong = no_list(job.list)
      if wrong then return { 'no_list', wrong } end
      job.at = job.run_at ~= '' and tonumber(job.run_at) or now + tonumber(job.delay)
      if job.at >= now + job.lifetime then return { 'late', i } end
    end
  end
end

local waiting, seq = {}, 0
local function store(job)
  local key = job_key(job.id)
  local there = redis.call('HMGET', key, 'created_at', 'run_at')
  if there[1] then return there[1], tonumber(there[2] or '0') > tonumber(there[1]) and 'delayed' or 'scheduled' end
  local state = job.at > now and 'delayed' or 'scheduled'
  seq = seq + 1
  local fields = { 'seq', seq, 'state', state, 'kind', job.kind, 'list', job.list, 'created_at', whole(now),
    'expires_at', whole(now + job.lifetime), 'entry', job.entry, 'payload', job.payload }
  if job.requester ~= '' then table.insert(fields, 'requester_id'); table.insert(fields, job.requester) end
  if job.at ~= now then table.insert(fields, 'run_at'); table.insert(fields, whole(job.at)) end
  if job.visibility ~= '' then table.insert(fields, 'visibility_us'); table.insert(fields, job.visibility) end
  if job.timeout ~= '' then table.insert(fields, 'timeout_us'); table.insert(fields, job.timeout) end
  redis.call('HSET', key, unpack(fields))
  begin_lifetime(job.id, now + job.lifetime)
  if state == 'delayed' then
    redis.call('ZADD', DUE, whole(job.at), job.id)
  else
    redis.call('LPUSH', job.list, job.entry)
    waiting[job.list] = (waiting[job.list] or 0) + 1
  end
  count(job.kind, state, 1)
  return whole(now), state
end

local function store_unit(unit)
  seq = redis.call('INCRBY', PREFIX .. ':seq', #unit.jobs) - #unit.jobs
  local answer, told = { 'stored' }, {}
  for i, job in ipairs(unit.jobs) do
    local line = job.told
    if line then
      table.insert(answer, '1')
    else
      local created_at, state = store(job)
      line = { job.id, state, created_at }
      table.insert(answer, '0')
    end
    for _, value in ipairs(line) do table.insert(answer, value); table.insert(told, value) end
    told[i] = told[i] or false
  end
  for _, key in ipairs(unit.keys) do
    local first = key.job == 0 and 1 or 3 * key.job - 2
    local last = key.job == 0 and #told or first + 2
    local lines = {}
    for i = first, last do table.insert(lines, told[i]) end
    if key.job == 0 or not unit.jobs[key.job].told then
      redis.call('DEL', key_name(key.name))
      redis.call('HSET', key_name(key.name), 'hash', key.hash, 'told', cjson.encode(lines),
        'expires_at', whole(now + key.window), 'window', whole(key.window))
      redis.call('ZADD', PREFIX .. ':keys', whole(now + key.window), key.name)
    end
  end
  return answer
end

local answers = {}
for _ = 1, tonumber(take()) do
  local unit = read_unit()
  table.insert(answers, refusal(unit) or store_unit(unit))
end
for list, jobs in pairs(waiting) do wake(list, jobs) end
write_lifetimes()
write_counts(now)
return answers
