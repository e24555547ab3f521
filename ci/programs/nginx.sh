#!/bin/sh
# A master and workers under load: files, compression, logs, a reload on the way. Prints what was
# served.
set -eu
dir=$(mktemp -d)
chmod 755 "$dir"
trap 'kill "$server" 2>/dev/null || :; wait; rm -rf "$dir"' EXIT
mkdir "$dir/www"
seq 1 30000 >"$dir/www/large.txt"
echo small >"$dir/www/small.txt"
port=$((20000 + $$ % 20000))
cat >"$dir/conf" <<CONF
worker_processes 2;
pid $dir/pid;
error_log $dir/error.log;
events { worker_connections 256; }
http {
    access_log $dir/access.log;
    gzip on; gzip_min_length 100; gzip_types text/plain;
    client_body_temp_path $dir/b; proxy_temp_path $dir/p; fastcgi_temp_path $dir/f; uwsgi_temp_path $dir/u; scgi_temp_path $dir/s;
    types { text/plain txt; }
    server {
        listen 127.0.0.1:$port;
        root $dir/www;
        location /again/ { proxy_pass http://127.0.0.1:$port/; }
    }
}
CONF
nginx -e "$dir/error.log" -c "$dir/conf" -g 'daemon off;' >"$dir/out" 2>&1 &
server=$!
for _ in $(seq 100); do curl -sf "http://127.0.0.1:$port/small.txt" >/dev/null && break; sleep 0.1; done
load() { ab -q -n "$1" -c 20 -H 'Accept-Encoding: gzip' "http://127.0.0.1:$port/$2" 2>&1 | grep -E '^(Complete|Failed|Non-2xx)'; }
load 2000 small.txt
load 300 large.txt
kill -HUP "$server"
load 2000 again/small.txt
load 200 again/large.txt
curl -s --compressed "http://127.0.0.1:$port/large.txt" | md5sum
curl -s -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:$port/none"
kill -QUIT "$server"
wait "$server" && echo "ended: $?"
grep -E 'alert|emerg|signal 6|signal 11' "$dir/error.log" || echo 'no crash'
