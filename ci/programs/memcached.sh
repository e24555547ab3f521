#!/bin/sh
# memcached with little memory, so that it evicts, and many connections. Prints what it answers.
set -eu
dir=$(mktemp -d)
chmod 777 "$dir"
trap 'kill "$server" 2>/dev/null || :; wait; rm -rf "$dir"' EXIT
memcached -s "$dir/socket" -u nobody -m 64 -t 4 -a 777 >"$dir/log" 2>&1 &
server=$!
for _ in $(seq 100); do [ -S "$dir/socket" ] && break; sleep 0.1; done
env -u LD_PRELOAD -u LD_DEBUG /usr/bin/python3 - "$dir/socket" <<'PY'
import hashlib, socket, sys, threading

digests = {}
def run(number):
    client = socket.socket(socket.AF_UNIX)
    client.connect(sys.argv[1])
    file = client.makefile("rb")
    digest = hashlib.md5()
    for i in range(3000):
        value = bytes([97 + i % 26]) * (i * 37 % 9000)
        client.sendall(b"set k%d-%d 0 0 %d\r\n%s\r\nget k%d-%d\r\n" % (number, i % 500, len(value), value, number, i % 500))
        assert file.readline() == b"STORED\r\n"
        head = file.readline()
        assert head.startswith(b"VALUE"), head
        digest.update(file.read(len(value)))
        assert file.readline() == b"\r\n" and file.readline() == b"END\r\n"
        if i % 7 == 0:
            client.sendall(b"delete k%d-%d\r\n" % (number, i % 500))
            assert file.readline() == b"DELETED\r\n"
    digests[number] = digest.hexdigest()
threads = [threading.Thread(target=run, args=(n,)) for n in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for number in sorted(digests): print(number, digests[number])
PY
kill "$server"
wait "$server" || :
echo "ended"
