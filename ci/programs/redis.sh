#!/bin/sh
# redis-server under its own benchmark and a script of commands, with a fork that saves; prints the
# digest of the data.
set -eu
dir=$(mktemp -d)
redis-server --port 0 --unixsocket "$dir/socket" --dir "$dir" --save '' >"$dir/log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null || :; wait; rm -rf "$dir"' EXIT
cli="redis-cli -s $dir/socket"
for _ in $(seq 100); do $cli ping >/dev/null 2>&1 && break; sleep 0.1; done
redis-benchmark -s "$dir/socket" -q -n 20000 -c 20 -d 300 -r 10000 -t ping,set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset \
    >"$dir/bench" 2>&1
tr '\r' '\n' <"$dir/bench" | grep 'requests per second' | sed 's/: .*//' | sort
$cli flushall >/dev/null
$cli eval 'for i = 1, 50000 do redis.call("set", "k" .. i % 20000, string.rep("v", i % 900))
    redis.call("zadd", "z" .. i % 50, i, "m" .. i) redis.call("append", "a" .. i % 100, "tail" .. i) end return redis.call("dbsize")' 0
$cli bgsave >/dev/null
while $cli info persistence | grep -q rdb_bgsave_in_progress:1; do sleep 0.1; done
$cli info persistence | grep rdb_last_bgsave_status
$cli eval 'local n = 0 for i = 0, 19999 do n = n + #redis.call("get", "k" .. i) end return n' 0
$cli --no-raw eval 'return redis.sha1hex(table.concat(redis.call("zrange", "z7", 0, -1)) .. redis.call("get", "a3"))' 0
$cli shutdown nosave || :
wait $server
echo "server: $?"
