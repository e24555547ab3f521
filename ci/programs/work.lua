local t = {}
for i = 1, 1000000 do t[i % 1000] = ("x"):rep(i % 300) .. i end
local n = 0
for _, s in pairs(t) do n = n + #s end
local threads = {}
for i = 1, 1000 do threads[i] = coroutine.create(function(a) while true do a = coroutine.yield(a .. i) end end) end
for i = 1, 1000 do local _, s = coroutine.resume(threads[i], "s"); n = n + #s end
print(n)
