#!/bin/sh
# A terminal server with windows and panes; prints what stands on its screen.
set -eu
dir=$(mktemp -d)
trap 'tmux -S "$dir/socket" kill-server 2>/dev/null || :; rm -rf "$dir"' EXIT
export TERM=screen LC_ALL=C.UTF-8
t="tmux -S $dir/socket -f /dev/null"
$t new-session -d -x 100 -y 30 -s one 'exec sh'
for i in 1 2 3 4 5; do $t new-window -t one 'exec sh'; $t split-window -t one 'exec sh'; done
$t list-panes -s -t one -F '#{window_index}.#{pane_index} #{pane_width}x#{pane_height}'
$t send-keys -t one:0 "PS1=; clear; seq 1 20000 | tail -n 3; touch $dir/done" Enter
for _ in $(seq 200); do [ -e "$dir/done" ] && break; sleep 0.05; done
sleep 0.3
$t capture-pane -p -t one:0 | grep -E '^(19998|19999|20000)$'
for i in 1 2 3; do $t kill-window -t "one:$i"; done
$t set-buffer "$(seq 1 500)"
$t show-buffer | md5sum
