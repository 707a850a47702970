#!/usr/bin/env bash
# test/fuzz.sh TIME [PART]: runs every fuzz target for that long, one after the other; with 2/6 each sixth of them, from the second.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s} part=${2:-1/1}
# An input that is new is made smaller for a minute, if nothing else is said: all of the time for a long text.
n=0 at=0 failed=()
while read -r file; do
    dir=./$(dirname "$file")
    for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
        at=$((at + 1))
        [ $(((at - 1) % ${part#*/} + 1)) = "${part%/*}" ] || continue
        echo "== $dir $target"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x "$dir" || failed+=("$dir.$target")
        n=$((n + 1))
    done
done < <(git ls-files -co --exclude-standard '*_test.go' | sort)
echo "$n of $at fuzz targets, $time each"
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
