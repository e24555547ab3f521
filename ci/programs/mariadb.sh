#!/bin/sh
# A database of its own under mysqlslap, with queries whose answers are printed. As root it runs as
# the user mysql.
set -eu
if [ "$(id -u)" = 0 ]; then
    user=mysql
    id "$user" >/dev/null 2>&1 || user=nobody
    # The log of the dynamic linker, if there is one, is made by root and must be writable for the
    # user.
    (umask 0 && exec setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups sh "$0")
    exit
fi
dir=$(mktemp -d)
trap 'mysqladmin --no-defaults -S "$dir/socket" -u root shutdown >/dev/null 2>&1 || :; wait; rm -rf "$dir"' EXIT
env -u LD_PRELOAD mariadb-install-db --no-defaults --datadir="$dir/data" --auth-root-authentication-method=normal \
    --skip-test-db >"$dir/install" 2>&1 || { tail -n 5 "$dir/install"; exit 1; }
mariadbd --no-defaults --datadir="$dir/data" --socket="$dir/socket" --pid-file="$dir/pid" --skip-networking \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=32M >"$dir/log" 2>&1 &
server=$!
sql="mysql --no-defaults -S $dir/socket -u root -N"
for _ in $(seq 300); do $sql -e 'select 1' >/dev/null 2>&1 && break; sleep 0.1; done
mysqlslap --no-defaults -S "$dir/socket" -u root --auto-generate-sql --auto-generate-sql-load-type=mixed --concurrency=8 \
    --iterations=2 --number-of-queries=2000 >"$dir/slap" 2>&1 || { cat "$dir/slap"; exit 1; }
grep -o 'Number of clients running queries: 8' "$dir/slap"
$sql <<'SQL'
create database one; use one;
create table t (id int primary key auto_increment, name varchar(200), number int, index (number));
insert into t (name, number) select md5(seq), seq * 7919 % 1000 from seq_1_to_20000;
select count(*), sum(number) from t;
select number, count(*), md5(group_concat(name order by id)) from t where number < 5 group by number order by number;
select count(*) from t a join t b on a.number = b.number and a.id < b.id where a.number < 50;
update t set name = concat(name, repeat('x', number % 100)) where id % 3 = 0;
delete from t where id % 7 = 0;
select md5(group_concat(name order by id)) from t where id < 2000;
select json_extract(concat('{"a": [', group_concat(id order by id), ']}'), '$.a[5]') from t where id < 200;
SQL
mysqladmin --no-defaults -S "$dir/socket" -u root shutdown
wait "$server" && echo "ended: $?"
grep -E 'got signal|InnoDB: Assertion' "$dir/log" || echo 'no crash'
