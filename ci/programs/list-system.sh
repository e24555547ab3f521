# Namespaces, D-Bus, debuggers, and what has a window elsewhere.
# shellcheck shell=bash
check -p 'unshare sh' "unshare -Ur" unshare -Ur sh -c 'id -u; cat /proc/self/uid_map; ls /usr'
check -p 'unshare sh' "unshare, all namespaces" unshare -Urmpfuin --mount-proc sh -c 'id -u; echo $$; set -- /proc/[0-9]*; echo $#'
check -p 'bwrap sh' bubblewrap bwrap --unshare-all --die-with-parent --dev-bind / / sh -c 'id -u; ls /usr; head -c 100000 /dev/zero | wc -c'
check systemd-analyze systemd-analyze --no-pager syscall-filter
check -s -n 'dbus-run-session dbus-send' -p 'dbus-run-session dbus-daemon dbus-send' "D-Bus, a session" "$pieces/dbus.sh"
check -s -n gdb -p gdb "gdb" "$pieces/gdb.sh" "$pieces/work.c"
check -s -n valgrind -p traced "valgrind" "$pieces/valgrind.sh" "$pieces/work.c"
check -s -n chromium -p chromium "chromium, headless" "$pieces/chromium.sh" "$pieces/page.html"
check -s -n firefox-esr -p firefox-esr "firefox, headless" "$pieces/firefox.sh" "$pieces/page.html"
check -s -l 400 -n soffice -p soffice.bin "libreoffice converts" "$pieces/libreoffice.sh"
# Its own checks of what it did; it prints times and process numbers, which are left out.
for stressor in malloc fork vfork clone pthread rseq membarrier memfd mlock; do
    check -s -n stress-ng -p stress-ng "stress-ng --$stressor" "$pieces/stress.sh" "$stressor"
done
