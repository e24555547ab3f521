# Servers under load.
# shellcheck shell=bash
check -s -n 'redis-server redis-benchmark' -p 'redis-server redis-benchmark redis-cli' redis "$pieces/redis.sh"
check -s -n 'postgres setpriv' -p 'postgres pgbench psql initdb' "postgres, pgbench" "$pieces/postgres.sh"
check -s -n 'nginx ab curl' -p 'nginx ab curl' "nginx under load" "$pieces/nginx.sh"
check -s -n 'memcached /usr/bin/python3' -p memcached "memcached under load" "$pieces/memcached.sh"
check -s -l 600 -n 'mariadbd mariadb-install-db mysqlslap setpriv' -p 'mariadbd mysqlslap mysql' "mariadb, mysqlslap" \
    "$pieces/mariadb.sh"
