-- Wake waiting workers for what other programs put into these lists: they leave no tokens. ARGV: lists.
for _, list in ipairs(ARGV) do
  if not no_list(list) then wake(list, redis.call('LLEN', list)) end
end
