-- Stage, progress and checkpoint of running jobs. An empty field stays as it is. Nothing is written if one news cannot be.
-- ARGV: now, then id, version, stage, the stage before it, and progress, message, checkpoint each behind a flag.
local now = time_us(ARGV[1])
local WIDTH = 10
local answers, stages, good = {}, {}, {}
for i = 2, #ARGV, WIDTH do
  local id, version, stage, before = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local job = redis.call('HMGET', job_key(id), 'state', 'claim_version', 'stage')
  good[i] = job[1] == 'running' and job[2] == version and job
  if good[i] and stage ~= '' then
    local here = stages[id] or job[3] or 'claimed'
    if here ~= stage and here ~= before then return { 'stage', (i - 2) / WIDTH, here } end
    stages[id] = stage
  end
end
for i = 2, #ARGV, WIDTH do
  local fields = {}
  for j, name in ipairs({ 'progress', 'progress_message', 'checkpoint' }) do
    local flag = i + 2 + 2 * j
    if ARGV[flag] == '1' then table.insert(fields, name); table.insert(fields, ARGV[flag + 1]) end
  end
  if good[i] and ARGV[i + 2] ~= '' and ARGV[i + 2] ~= (good[i][3] or 'claimed') then
    for _, value in ipairs({ 'stage', ARGV[i + 2], 'updated_at', whole(now) }) do table.insert(fields, value) end
  end
  if good[i] and #fields > 0 then redis.call('HSET', job_key(ARGV[i]), unpack(fields)) end
  table.insert(answers, good[i] and '1' or '0')
end
return answers
