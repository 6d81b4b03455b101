-- Settle what a worker has finished, then move the next jobs into its processing list: one step for both.
-- ARGV: now, completions, other reports with all their fields, then the request.
local at = 0
local function take() at = at + 1; return ARGV[at] end
local now = time_us(take())
local stamp = whole(now)
local emptied, completed = {}, {}
-- What ended of each worker: taken out of its processing list, and of those that completed put into theirs, all at once.
local function out_of_processing(worker, entry)
  local entries = emptied[worker]
  if not entries then
    entries = {}
    emptied[worker] = entries
  end
  entries[#entries + 1] = entry
end

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

-- What most jobs come to. Its lifetime is left for the sweeps to find, or goes with the record: one look less at the
-- longest of all lists.
local function complete(version, result, key, worker, entry, kind)
  if result then
    redis.call('HSET', key, 'state', 'completed', 'completed_at', stamp, 'result', result)
  else
    redis.call('HSET', key, 'state', 'completed', 'completed_at', stamp)
  end
  out_of_processing(worker, entry)
  completed[#completed + 1] = entry
  if version ~= '1' then redis.call('HDEL', key, 'error') end
  count(kind, 'completed', 1)
end

-- The entry with this many retries. Another program may have spaces in its JSON, `retries` in an object inside it, or none
-- at all: a change is right only if the whole, read again, says so.
local function with_retries(entry, retries)
  local readable, before = pcall(cjson.decode, entry)
  if not readable or before.retries == tonumber(retries) then return entry end
  local from = 1
  while true do
    local first, last = string.find(entry, '"retries"%s*:%s*[%w.+-]+', from)
    if not first then break end
    local after = string.sub(entry, 1, first - 1) .. '"retries":' .. retries .. string.sub(entry, last + 1)
    local good, said = pcall(cjson.decode, after)
    if good and said.retries == tonumber(retries) then return after end
    from = last
  end
  return before.retries == nil and string.gsub(entry, '%s*}%s*$', ',"retries":' .. retries .. '}') or entry
end

local function end_otherwise(r, key, state, worker, entry, kind)
  local job = redis.call('HMGET', key, 'attempt_count', 'release_count', 'started_at', 'seq', 'list')
  local target = ENDED_IN[state] or job[5]
  local wrong = no_list(target)
  if wrong then return 'no_list:' .. wrong end
  local after = entry
  if r.retries ~= '' then after = with_retries(entry, r.retries) end
  local fields = { 'state', state, 'updated_at', stamp, 'entry', after }
  local function set(name, value) table.insert(fields, name); table.insert(fields, value) end
  if r.error ~= '' then set('error', r.error) end
  if r.refund ~= '0' then set('attempt_count', tonumber(job[1]) - tonumber(r.refund)) end
  if r.release ~= '' then set('release_count', (tonumber(job[2]) or 0) + 1) end
  if r.take_away == '1' then set('claim_version', tonumber(r.version) + 1) end
  out_of_processing(worker, entry)
  if state == 'retrying' then
    set('run_at', whole(now + tonumber(r.delay)))
    redis.call('ZADD', DUE, whole(now + tonumber(r.delay)), r.id)
  elseif state == 'scheduled' then
    set('scheduled_at', stamp)
    put_back(target, after, tonumber(job[4]))
    wake(target, 1)
  else
    set('completed_at', stamp)
    redis.call('LPUSH', target, after)
    end_lifetime(r.id)
  end
  redis.call('HSET', key, unpack(fields))
  close_attempt(r.id, r.version, tonumber(job[1]), worker, job[3], now, r.outcome, state, r.error ~= '' and r.error or nil)
  count(kind, state, 1)
  return state
end

local function settle(r)
  local key = job_key(r.id)
  local job = redis.call('HMGET', key, 'state', 'claim_version', 'worker_id', 'entry', 'kind', 'cancel_version', 'stage',
    'lease_expires_at')
  if job[1] ~= 'running' or job[2] ~= r.version then return r.lost == '' and confirmed(r, job) or '' end
  -- A sweep takes only what has lost its worker, by the heartbeat or by its own lease.
  if r.lost ~= '' and redis.call('EXISTS', heartbeat_of(job[3])) == 1 and tonumber(job[8]) >= now then return '' end
  if r.last_stage ~= '' and (job[7] or 'claimed') ~= r.last_stage then return 'stage:' .. (job[7] or 'claimed') end
  local state = r.state
  if job[6] == r.version and (state == 'retrying' or state == 'scheduled') then state = 'cancelled' end
  if state == 'completed' then
    local wrong = no_list(COMPLETED)
    if wrong then return 'no_list:' .. wrong end
    complete(r.version, r.has_result == '1' and r.result, key, job[3], job[4], job[5])
  else
    state = end_otherwise(r, key, state, job[3], job[4], job[5])
    if string.sub(state, 1, 8) == 'no_list:' then return state end
  end
  count(job[5], 'running', -1)
  return state
end

-- A completion that says nothing else: less is read, and no table is made for it.
local function settle_completed(id, version, result)
  local key = job_key(id)
  local job = redis.call('HMGET', key, 'state', 'claim_version', 'worker_id', 'entry', 'kind')
  if job[2] ~= version then return '' end
  if job[1] ~= 'running' then return job[1] == 'completed' and 'completed' or '' end
  local wrong = no_list(COMPLETED)
  if wrong then return 'no_list:' .. wrong end
  complete(version, result, key, job[3], job[4], job[5])
  count(job[5], 'running', -1)
  return 'completed'
end

local states, is_refused = {}, false
local function note(state)
  is_refused = is_refused or string.sub(state, 1, 8) == 'no_list:'
  states[#states + 1] = state
end
for _ = 1, tonumber(take()) do note(settle_completed(take(), take(), take())) end
for _ = 1, tonumber(take()) do
  note(settle({
    id = take(), version = take(), state = take(), outcome = take(), has_result = take(), result = take(),
    error = take(), delay = take(), refund = take(), release = take(), take_away = take(), retries = take(), last_stage = take(),
    lost = take() }))
end

-- Many that ended are mostly those that began first, which stand together at the end of the list.
local function clear_processing(worker, entries)
  local processing, wanted = processing_of(worker), {}
  for _, entry in ipairs(entries) do wanted[entry] = (wanted[entry] or 0) + 1 end
  if #entries > 1 then
    local line = redis.call('LRANGE', processing, -#entries, -1)
    local left = #line
    while left > 0 and (wanted[line[left]] or 0) > 0 do
      wanted[line[left]] = wanted[line[left]] - 1
      left = left - 1
    end
    if left < #line then redis.call('LTRIM', processing, 0, left - #line - 1) end
  end
  for entry, times in pairs(wanted) do
    if times > 0 then redis.call('LREM', processing, -times, entry) end
  end
end
for name, entries in pairs(emptied) do clear_processing(name, entries) end
for i = 1, #completed, CHUNK do
  redis.call('LPUSH', COMPLETED, unpack(completed, i, math.min(i + CHUNK - 1, #completed)))
end

-- --- claim ------------------------------------------------------------------------------------------
local limit, total = tonumber(take()), 0
local worker = take()
local claims, odd, has_more = {}, {}, 0

-- What was claimed as one string, in msgpack: Redis 6 writes every table of an answer by a system call of its own.
local BINARY, NUMBER, NONE = 0xc6, 0xce, '\192'
local USUAL = '>B' .. string.rep('BI4c0', 3) .. 'BI4BI4' .. string.rep('BI4c0', 4) .. 'BBB'
local function packed_value(value)
  if not value then return NONE end
  return type(value) == 'number' and struct.pack('>BI4', NUMBER, value) or struct.pack('>BI4c0', BINARY, #value, value)
end

local function packed_claim(c)
  if c[3] and #c == 12 and not (c[10] or c[11] or c[12]) then
    return struct.pack(USUAL, 0x9c, BINARY, #c[1], c[1], BINARY, #c[2], c[2], BINARY, #c[3], c[3], NUMBER, c[4], NUMBER,
      c[5], BINARY, #c[6], c[6], BINARY, #c[7], c[7], BINARY, #c[8], c[8], BINARY, #c[9], c[9], 0xc0, 0xc0, 0xc0)
  end
  local values = { struct.pack('>BI2', 0xdc, #c) }
  for i = 1, #c do values[i + 1] = packed_value(c[i]) end
  return table.concat(values)
end

-- Large ones stay a table: their bytes would be in memory twice more, and a few writes are nothing beside them.
local LARGE = 1000000
local function packed(all)
  if #all == 0 then return '' end
  local parts, size = { struct.pack('>BI4', 0xdd, #all) }, 0
  for i = 1, #all do
    size = size + #all[i][1] + #(all[i][3] or '')
    if size > LARGE then return all end
    parts[i + 1] = packed_claim(all[i])
  end
  return table.concat(parts)
end

local function finish()
  for name in pairs(emptied) do
    if redis.call('EXISTS', processing_of(name)) == 0 then redis.call('DEL', heartbeat_of(name)) end
  end
  write_lifetimes()
  write_counts(now)
  return { stamp, states, packed(claims), #odd > 0 and odd or '', has_more }
end
-- What cannot be settled is an error for the worker, which would not hear of a claim beside it.
if worker == '' or is_refused then return finish() end
total = limit + tonumber(take())

local ttl, heartbeat_key_ms = tonumber(take()), take()
local VISIBILITY, TIMEOUT, OVERRUN = tonumber(take()), tonumber(take()), tonumber(take())
local foreign_type, foreign_lifetime = take(), tonumber(take())
local wanted, any_type, short = {}, true, {}
for _ = 1, tonumber(take()) do any_type = false; wanted[take()] = true end
if take() == '1' then any_type = true end
for _ = 1, tonumber(take()) do short[take()] = true end
local processing = processing_of(worker)
local paused, aside = {}, {}
if redis.call('EXISTS', PAUSED, ASIDE) > 0 then
  for _, name in ipairs(redis.call('SMEMBERS', PAUSED)) do paused[name] = true end
  for _, name in ipairs(redis.call('SMEMBERS', ASIDE)) do
    local at_list = string.find(name, SEPARATOR, 1, true)
    local list, job_type = string.sub(name, 1, at_list - 1), string.sub(name, at_list + 1)
    aside[list] = aside[list] or {}
    table.insert(aside[list], job_type)
  end
end
local TAKEN = { 'state', 'entry', 'kind', 'payload', 'seq', 'created_at', 'expires_at', 'claim_version', 'visibility_us',
  'timeout_us', 'run_at' }
local types = {}
local TAKEN_AGAIN = { 'attempt_count', 'release_count', 'scheduled_at', 'error', 'checkpoint', 'cancel_version' }

local function may_run(job_type)
  return (any_type or wanted[job_type]) and not paused['type' .. SEPARATOR .. job_type]
end

local function tell_odd(what, entry) table.insert(odd, what); table.insert(odd, string.sub(entry, 1, 200)) end

-- A job that another program put there: it has no record yet.
local function adopt(list, entry, id)
  local good, said = pcall(cjson.decode, entry)
  if not good or type(said) ~= 'table' or said.id ~= id then return false end
  local job_type = type(said.type) == 'string' and said.type ~= '' and is_utf8(said.type) and said.type or foreign_type
  redis.call('HSET', job_key(id), 'seq', redis.call('INCR', PREFIX .. ':seq'), 'state', 'scheduled', 'entry', entry,
    'kind', list .. SEPARATOR .. job_type, 'list', list, 'created_at', stamp, 'expires_at', whole(now + foreign_lifetime))
  begin_lifetime(id, now + foreign_lifetime)
  count(list .. SEPARATOR .. job_type, 'scheduled', 1)
  return true
end

-- Whether a job may wait in the worker for a slot: nobody claimed it before, and it has more than one attempt.
local function can_wait(job_type, entry, version)
  local at = version == 1 and short[job_type] and string.find(entry, '"max_attempts":', 1, true)
  local budget = at and string.match(entry, '^%d+', at + 15)
  return budget and budget ~= '1'
end

-- Claims the job of an entry; what cannot be claimed goes to where it belongs. False: it stays where it is, being a job
-- behind the free slots that cannot wait, or no job while there is no list of dead letters: that one holds up its own
-- list alone.
local begun, is_stuck = {}, false
local function begin(list, entry, is_aside)
  local id, wrong = id_of(entry)
  local key = id and job_key(id)
  local job = id and redis.pcall('HMGET', key, unpack(TAKEN))
  if job and not job.err and not job[1] then
    job = adopt(list, entry, id) and redis.call('HMGET', key, unpack(TAKEN))
  end
  if not job or job.err then
    if no_list(DEAD) then
      tell_odd('no_list', no_list(DEAD))
      is_stuck = true
      return false
    end
    redis.call('LPUSH', DEAD, entry)
    tell_odd(wrong or 'unreadable', entry)
    return true
  end
  if (job[1] == 'dead_letter' or job[1] == 'failed') and job[2] == entry then
    -- Somebody moved it back by hand: it starts anew.
    redis.call('LREM', ENDED_IN[job[1]], 1, entry)
    redis.call('HDEL', key, 'completed_at')
    job[7] = whole(now + foreign_lifetime)
    redis.call('HSET', key, 'state', 'scheduled', 'expires_at', job[7], 'attempt_count', 0)
    begin_lifetime(id, now + foreign_lifetime)
    count(job[3], job[1], -1)
    count(job[3], 'scheduled', 1)
    job[1] = 'scheduled'
  end
  if job[1] ~= 'scheduled' or job[2] ~= entry then
    -- Its job runs or has ended otherwise: this is a copy.
    tell_odd('copy', entry)
    return true
  end
  local job_type = types[job[3]]
  if not job_type then
    job_type = type_of(job[3])
    types[job[3]] = job_type
  end
  if tonumber(job[7]) <= now or not is_aside and not may_run(job_type) then
    -- Not for this worker, or past its lifetime: the sweep ends it.
    redis.call('LPUSH', aside_of(list, job_type), entry)
    redis.call('SADD', ASIDE, list .. SEPARATOR .. job_type)
    return true
  end
  local version = (tonumber(job[8]) or 0) + 1
  if #claims >= limit and not can_wait(job_type, entry, version) then return false end
  local timeout = tonumber(job[10]) or TIMEOUT
  local lease = whole(now + math.min(ttl, tonumber(job[9]) or VISIBILITY, timeout + OVERRUN))
  local claim = { entry, job[3], job[4], version, 1, lease, job[5], job[6], job[7], job[9], job[10], job[11] }
  if version > 1 then
    local before = redis.call('HMGET', key, unpack(TAKEN_AGAIN))
    claim[5] = (tonumber(before[1]) or 0) + 1
    for i = 2, #TAKEN_AGAIN do claim[11 + i] = before[i] end
    redis.call('HDEL', key, 'progress', 'progress_message', 'stage', 'heartbeat_at', 'updated_at')
  end
  redis.call('HSET', key, 'state', 'running', 'claim_version', version, 'attempt_count', claim[5],
    'worker_id', worker, 'lease_expires_at', lease, 'started_at', stamp)
  count(job[3], 'scheduled', -1)
  count(job[3], 'running', 1)
  claims[#claims + 1] = claim
  begun[#begun + 1] = entry
  return true
end

-- So many entries that are not for this worker are passed over in one go: Redis serves nobody else meanwhile.
local PASSED_OVER = 1000
local is_stopped = false
-- Begins the jobs of a line, up to the first that has to stay: how many went. An error among them is told afterwards.
local function begin_all(list, line, is_aside)
  local gone = 0
  local good, error = pcall(function()
    while gone < #line and begin(list, line[gone + 1], is_aside) do gone = gone + 1 end
    is_stopped = gone < #line and not is_stuck
  end)
  return gone, not good and error
end

-- Moves the front of a line to the processing list. It is popped, not read: an old Redis reads the end of a long list by
-- walking to it from the other. Returns the error of Redis, if there is one; what was not begun is in its place again.
local is_known = false
local function from(list, source, is_aside)
  if redis.call('EXISTS', source) == 0 then return nil end
  local wrong = no_list(processing)
  if wrong then return redis.error_reply('NOLIST ' .. wrong) end
  -- The first write of a claim: a Redis that is full refuses this one, and would let RPOP and all behind it pass.
  if not is_known then redis.call('SADD', PREFIX .. ':workers', worker) end
  is_known = true
  local looked = is_aside and redis.call('LLEN', source) or PASSED_OVER + total
  is_stuck = false
  while #claims < total and looked > 0 and not is_stopped and not is_stuck do
    local asked = math.min(total - #claims, looked, CHUNK)
    local line = redis.pcall('RPOP', source, asked)
    if not line then return nil end
    if line.err then return line end
    local gone, error = begin_all(list, line, is_aside)
    if #begun > 0 then redis.call('LPUSH', processing, unpack(begun)) end
    begun = {}
    for i = #line, gone + 1, -1 do redis.call('RPUSH', source, line[i]) end
    if error then return redis.error_reply(tostring(error)) end
    if #line < asked then return nil end
    looked = looked - gone
  end
  if looked == 0 and not is_aside and #claims < total then has_more = 1 end
end

for _ = 1, tonumber(take()) do
  local queue, lists = take(), tonumber(take())
  local is_open = not paused['queue' .. SEPARATOR .. queue]
  for _ = 1, lists do
    local list = take()
    -- A list of the configuration is a queue of its own, and is paused as one.
    if is_open and #claims < total and not is_stopped and not paused['queue' .. SEPARATOR .. list] then
      for _, job_type in ipairs(aside[list] or {}) do
        if may_run(job_type) and #claims < total and not is_stopped then
          from(list, aside_of(list, job_type), true)
          if redis.call('EXISTS', aside_of(list, job_type)) == 0 then
            redis.call('SREM', ASIDE, list .. SEPARATOR .. job_type)
          end
        end
      end
      local failed = from(list, list, false)
      if failed then
        if #claims == 0 and (no_list(processing) or not no_list(list)) then
          finish()
          return failed
        end
        tell_odd('no_list', no_list(list) or failed.err)
      end
    end
  end
end
if #claims > 0 then redis.call('SET', heartbeat_of(worker), whole(now + ttl), 'PX', heartbeat_key_ms) end
return finish()
