#!/bin/sh
# A bus of its own, with a crowd of clients that ask it.
set -eu
dbus-run-session -- sh -c '
    for i in 1 2 3 4 5 6 7 8 9 10; do
        dbus-send --session --print-reply=literal --dest=org.freedesktop.DBus / org.freedesktop.DBus.NameHasOwner \
            string:org.freedesktop.DBus &
    done
    wait
    dbus-send --session --print-reply=literal --dest=org.freedesktop.DBus / org.freedesktop.DBus.Introspectable.Introspect | md5sum
    dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListActivatableNames | grep -c string' 2>&1 | grep -v 'Failed to set fd limit'
