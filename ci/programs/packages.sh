# Debian's packages, one by one: a big one that cannot be had costs its own program only. A line is
# the package and a program that tells whether it is there.
# shellcheck shell=bash
packages() {
    local name tool apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq)
    "${apt[@]}" update >/dev/null || echo "LOUD: apt-get update failed" >&2
    while read -r name tool; do
        # shellcheck disable=SC2086 # may be a pattern
        command -v "$tool" >/dev/null 2>&1 || ls $tool >/dev/null 2>&1 && continue
        "${apt[@]}" install -y --no-install-recommends "$name" >/dev/null 2>&1 || echo "NOT INSTALLED: $name failed to install" >&2
    done <<'LIST'
git git
perl perl
openssl openssl
nodejs node
sqlite3 sqlite3
lua5.4 lua
ruby ruby
z3 z3
ghostscript gs
redis-server redis-server
redis-tools redis-benchmark
postgresql /usr/lib/postgresql/*/bin/postgres
default-jdk-headless javac
chromium chromium
python3 python3
nginx-light nginx
apache2-utils ab
curl curl
memcached memcached
mariadb-server mariadbd
php-cli php
ffmpeg ffmpeg
imagemagick /usr/bin/convert-im6.q16
tmux tmux
vim vim
rsync rsync
clang clang
golang-go go
bubblewrap bwrap
util-linux unshare
firefox-esr firefox-esr
libreoffice-writer-nogui soffice
systemd systemd-analyze
dbus-daemon dbus-run-session
dbus-bin dbus-send
gdb gdb
valgrind valgrind
stress-ng stress-ng
LIST
    # The interpreter's own tests are a package for each version.
    name=$(/usr/bin/python3 -c 'import sys; print("libpython%d.%d-testsuite" % sys.version_info[:2])') &&
        { /usr/bin/python3 -c 'import test.test_json' 2>/dev/null || "${apt[@]}" install -y "$name" >/dev/null 2>&1; } ||
        echo "NOT INSTALLED: python3's own tests" >&2
}
