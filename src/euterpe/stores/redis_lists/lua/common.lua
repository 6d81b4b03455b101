-- In front of every script: names of keys, the time, and the moves that several scripts make.
-- KEYS: prefix, completed list, dead-letter list, and both halves of the patterns of processing lists and heartbeats.
local PREFIX, COMPLETED, DEAD = KEYS[1], KEYS[2], KEYS[3]
local DUE, LIFETIMES, COUNTS = PREFIX .. ':due', PREFIX .. ':lifetimes', PREFIX .. ':counts'
local PAUSED, ASIDE = PREFIX .. ':paused', PREFIX .. ':aside'
local ENDED_IN = { completed = COMPLETED, dead_letter = DEAD, failed = PREFIX .. ':failed', cancelled = PREFIX .. ':cancelled' }
local WAITING = { scheduled = true, delayed = true, retrying = true }
local SEPARATOR = '\0'

local function job_key(id) return PREFIX .. ':job:' .. id end
local function attempts_key(id) return PREFIX .. ':attempts:' .. id end
local function processing_of(worker) return KEYS[4] .. worker .. KEYS[5] end
local function heartbeat_of(worker) return KEYS[6] .. worker .. KEYS[7] end

-- Numbers of sixteen digits; Lua would write them with an exponent.
local function whole(number) return string.format('%.0f', number) end

local function time_us(given)
  if given ~= '' then return tonumber(given) end
  local now = redis.call('TIME')
  return now[1] * 1000000 + now[2]
end

-- Redis takes any bytes for text; whoever reads an id as UTF-8 must not fail at it.
local SEQUENCES = { '[\194-\223][\128-\191]', '\224[\160-\191][\128-\191]', '[\225-\236\238\239][\128-\191][\128-\191]',
  '\237[\128-\159][\128-\191]', '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]' }
local function is_utf8(text)
  for _, sequence in ipairs(SEQUENCES) do text = string.gsub(text, sequence, ' ') end
  return not string.find(text, '[\128-\255]')
end

-- The id in an entry, or nil and why not. Ours begin with it; another program's may be written in any way.
local ID_LIMIT = 256
local function id_of(entry)
  local id = string.match(entry, '^{"id":"([%w%-_.:/]+)"')
  if id and #id <= ID_LIMIT then return id end
  local good, said = pcall(cjson.decode, entry)
  id = good and type(said) == 'table' and said.id
  if type(id) ~= 'string' or id == '' or string.find(id, '\0', 1, true) or not is_utf8(id) then return nil, 'unreadable' end
  if #id > ID_LIMIT then return nil, 'long_id' end
  return id
end

-- How many jobs of a queue and type are in a state. Gathered, and written once at the end of a script.
local tally = {}
local function count(kind, state, more)
  local states = tally[kind]
  if not states then
    states = {}
    tally[kind] = states
  end
  states[state] = (states[state] or 0) + more
end

-- What ended in these five seconds, for the ends of the last minute.
local SLOT, SLOT_LASTS_S = 5000000, 120
local function write_counts(now)
  local ended = {}
  for kind, states in pairs(tally) do
    for state, more in pairs(states) do
      local field = state .. SEPARATOR .. kind
      if more ~= 0 and redis.call('HINCRBY', COUNTS, field, more) == 0 then redis.call('HDEL', COUNTS, field) end
      if more > 0 and ENDED_IN[state] then ended[state] = (ended[state] or 0) + more end
    end
  end
  if next(ended) then
    local key = PREFIX .. ':ended:' .. whole(math.floor(now / SLOT))
    for state, more in pairs(ended) do redis.call('HINCRBY', key, state, more) end
    redis.call('EXPIRE', key, SLOT_LASTS_S)
  end
end

-- Lifetimes of jobs that came or ended, likewise: one command for many.
local CHUNK = 1000
local came, left = {}, {}
local function begin_lifetime(id, expires_at) table.insert(came, whole(expires_at)); table.insert(came, id) end
local function end_lifetime(id) table.insert(left, id) end
local function write_lifetimes()
  for i = 1, #came, CHUNK do redis.call('ZADD', LIFETIMES, unpack(came, i, math.min(i + CHUNK - 1, #came))) end
  for i = 1, #left, CHUNK do redis.call('ZREM', LIFETIMES, unpack(left, i, math.min(i + CHUNK - 1, #left))) end
end

local function type_of(kind) return string.sub(kind, string.find(kind, SEPARATOR, 1, true) + 1) end

-- Nil when the key may be used as a list, else what is wrong with it. A script asks before it writes: Redis takes
-- nothing back when a later command fails.
local looked_at = {}
local function no_list(key)
  if looked_at[key] == nil then
    local kind = redis.call('TYPE', key).ok
    looked_at[key] = kind ~= 'list' and kind ~= 'none' and key .. ' holds a ' .. kind .. ' and not a list'
  end
  return looked_at[key]
end

-- A list may have jobs set aside by type: those that a worker met which does not know the type. ASIDE names all such.
local function aside_of(list, job_type) return list .. ':type:' .. job_type end

local STEPS = 64
-- Puts a job back where its submission had it: behind the older ones of the first 64 in line, else to the front.
local function put_back(list, entry, seq)
  local line = redis.call('LRANGE', list, -STEPS, -1)
  local older = 0
  for i = #line, 1, -1 do
    local id = id_of(line[i])
    local other = id and redis.call('HGET', job_key(id), 'seq')
    if not other or tonumber(other) > seq then break end
    older = older + 1
  end
  if older == #line and older < STEPS then
    redis.call('LPUSH', list, entry)
  elseif older == 0 or older == STEPS then
    redis.call('RPUSH', list, entry)
  else
    redis.call('LTRIM', list, 0, -older - 1)
    redis.call('RPUSH', list, entry)
    for i = #line - older + 1, #line do redis.call('RPUSH', list, line[i]) end
  end
end

-- Out of the list where a waiting job stands, or the one where somebody set it aside.
local function take_out(list, entry, kind)
  if redis.call('LREM', list, -1, entry) == 0 then redis.call('LREM', aside_of(list, type_of(kind)), -1, entry) end
end

-- One waiting worker looks at each list; a token tells it. More than a few would only be looked at in vain.
local TOKENS = 16
local function wake(list, jobs)
  local key = list .. ':wake'
  local there = redis.call('LLEN', key)
  for _ = there + 1, math.min(jobs, TOKENS) do redis.call('LPUSH', key, '1') end
end

-- The history of an attempt that did not complete its job.
local function close_attempt(id, version, attempt, worker, started_at, now, outcome, state, error)
  redis.call('RPUSH', attempts_key(id), cjson.encode({
    claim_version = version, attempt = attempt, worker_id = worker, started_at = started_at, ended_at = whole(now),
    outcome = outcome, state = state, error = error }))
end
