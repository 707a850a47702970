#!/usr/bin/env bash
# make skew OLD=COMMIT: this version and an older one as launcher and agent of each other, by docs/versions.md: with one protocol
# number they run a job, with two each refuses the other after 15 s (code 245) and says both.
set -euo pipefail
cd "$(dirname "$0")/.."
old=$(git rev-parse --verify "${1:?which older commit?}^{commit}")
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
build() { # build DIRECTORY NAME
    (cd "$1" && CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$2" -o "$work/$2" ./cmd/mpiup)
}
mkdir "$work/source"
git archive "$old" | tar -x -C "$work/source"
build "$work/source" old
build . new
protocol() { "$work/$1" version | sed 's/.*(protocol \([0-9]*\),.*/\1/'; }
same=$([ "$(protocol old)" = "$(protocol new)" ] && echo yes || echo no)
echo "old: ${old:0:7}, $("$work/old" version); new: $("$work/new" version)"
"$work/new" keygen >"$work/key"
n=0
for pair in "old new" "new old"; do
    read -r launcher agent <<<"$pair"
    address=127.31.7.$((++n))
    "$work/$agent" agent --key "$work/key" --listen "$address" --http off >"$work/$agent.log" 2>&1 &
    pids+=($!)
    : >>"$work/$agent.log"
    until grep -q 'agent is ready' "$work/$agent.log"; do kill -0 "${pids[-1]}"; done
    began=$SECONDS code=0
    said=$("$work/$launcher" run --key "$work/key" --host "$address:2" -n 2 --wait 60 sh -c 'echo rank $MPIUP_RANK' 2>&1) || code=$?
    case $same:$code in
        yes:0) [ "$(grep -c '^rank [01]$' <<<"$said")" = 2 ] || { echo "$said"; exit 1; } ;;
        no:245) [[ $said == *"protocol $(protocol old)"* && $said == *"protocol $(protocol new)"* ]] || { echo "$launcher does not say both protocols: $said" >&2; exit 1; } ;;
        *) echo "launcher $launcher, agent $agent: code $code: $said" >&2; exit 1 ;;
    esac
    echo "launcher $launcher, agent $agent: code $code after $((SECONDS - began)) s: $(head -1 <<<"$said")"
done
