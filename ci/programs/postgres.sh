#!/bin/sh
# A database cluster of its own, pgbench on it, and a few queries. As root it runs as another
# user: postgres, if there is one.
set -eu
if [ "$(id -u)" = 0 ]; then
    user=postgres
    id "$user" >/dev/null 2>&1 || user=nobody
    # The log of the dynamic linker, if there is one, is made by root and must be writable for the
    # user.
    (umask 0 && exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups sh "$0")
    exit
fi
for bin in /usr/lib/postgresql/*/bin; do [ -x "$bin/postgres" ] && PATH="$bin:$PATH"; done
umask 077
dir=$(mktemp -d)
trap 'pg_ctl -D "$dir/data" -m immediate stop >/dev/null 2>&1 || :; rm -rf "$dir"' EXIT
initdb -D "$dir/data" -A trust -U me --no-locale -E UTF8 -N >"$dir/initdb" 2>&1 || { cat "$dir/initdb"; exit 1; }
pg_ctl -D "$dir/data" -l "$dir/log" -w -o "-c listen_addresses= -c unix_socket_directories=$dir -c fsync=off" start >/dev/null ||
    { cat "$dir/log"; exit 1; }
export PGHOST="$dir" PGUSER=me
pgbench -i -q -s 1 postgres >/dev/null 2>&1
pgbench -c 8 -j 2 -t 200 --random-seed=1 postgres 2>&1 | grep 'transactions actually'
psql -At postgres -c 'select count(*), sum(delta) from pgbench_history' -c 'select sum(tbalance) from pgbench_tellers' \
    -c "select md5(string_agg(md5(i::text), '' order by md5((i * 7)::text))) from generate_series(1, 100000) i" \
    -c "select count(*) from pgbench_accounts a join pgbench_accounts b on a.aid = b.aid * 2 where a.filler < b.filler || 'x'"
pg_ctl -D "$dir/data" -m fast -w stop >/dev/null
grep -E 'PANIC|terminated by signal' "$dir/log" || echo 'no crash'
