#!/usr/bin/env bash
# test/attack.sh: runs the tests beside test/attack that docs/data/attacks.tsv names, package by package.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=()
while read -r dir names; do
    # shellcheck disable=SC2086
    pattern="^($(tr ' ' '|' <<<"$names"))\$"
    (if [ "${dir#test/kube}" != "$dir" ]; then cd "$dir" && dir=.; else dir=./$dir; fi
        go test -count=1 -timeout 15m -run "$pattern" "$dir") || failed+=("$dir")
done < <(grep -o '[a-z0-9/]*\.\(Test\|Fuzz\)[A-Za-z0-9]*' docs/data/attacks.tsv | sort -u | grep -v '^test/attack\.' |
    awk -F. '{ of[$1] = of[$1] " " $2 } END { for (d in of) print d of[d] }' | sort)
[ ${#failed[@]} = 0 ] || { echo "failed in: ${failed[*]}" >&2; exit 1; }
