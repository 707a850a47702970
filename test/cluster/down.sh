#!/usr/bin/env bash
# Ends the cluster: each node's first process, with which all in the node ends, then its cgroups and files.
set -uo pipefail
. "$(dirname "$0")/versions.sh"
. "$(dirname "$0")/nodes.sh"
for f in "$run"/node*.pid; do
    [ -e "$f" ] || continue
    n=${f##*/node} pid=$(cat "$f")
    # The number may be another process's by now.
    if grep -aq "$run/node${n%.pid}/init.sh" "/proc/$pid/cmdline" 2>/dev/null; then
        kill -9 "$pid"
        eventually 60 test ! -d "/proc/$pid"
    fi
    rm -f "$f"
done
empty() {
    local h d left=0
    for h in $(hierarchies); do
        for d in "$h/$name"-*; do
            [ -d "$d" ] || continue
            find "$d" -depth -type d -exec rmdir {} \; 2>/dev/null
            [ ! -d "$d" ] || left=1
        done
    done
    return $left
}
eventually 60 empty
[ "${1:-}" = keep ] || rm -rf --one-file-system "$run"
