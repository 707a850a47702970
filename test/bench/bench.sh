#!/usr/bin/env bash
# make bench: mpiup's start-up times, output rate, clean-up time and memory. Where the peers'
# scripts (../shared/bench, or $PEERS_BENCH) and the peers themselves (make bench-peers) are
# there, mpiup and they take turns, and ratios of one run are judged; else mpiup is measured
# alone. Frameworks' own launchers are compared with where they are there. Needs root. ROUNDS=7 runs of each.
# PAIRS=40 of runs with --watch-ranks and without, of which else as many as runs of each are made, in a minute.
# It ends within MINUTES=15: failures, which come last, are tried as long as they fit in.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/bench/goals.sh
rounds=${ROUNDS:-7} most=$((${MINUTES:-15} * 60))
peers=${PEERS_BENCH:-../shared/bench}

[ "$(id -u)" = 0 ] || { echo "bench makes hosts out of network namespaces, which needs root" >&2; exit 1; }
test/setup.sh go demo
work=$(mktemp -d /var/tmp/mpiup-bench.XXXXXX) # seen by all hosts, as /tmp, /run and /root are not
# Pods are in cpu cgroups. Outside one, Linux gives each process session a share of its own (autogroup), and
# sched_yield of a rank that waits, a session of its own under mpiup, gives way to nobody.
home=$(awk -F: '$2 ~ /(^|,)cpu(,|$)/ { print "/sys/fs/cgroup/" $2 $3 }' /proc/self/cgroup)
[ -n "$home" ] || { home=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup); echo +cpu >"$home/cgroup.subtree_control"; } 2>/dev/null || true
pod=${home%/}/mpiup-bench.$$
leave() {
    echo $$ >"$home/cgroup.procs" && rmdir "$pod"
    rm -rf "$work"
} 2>/dev/null
trap leave EXIT
{ mkdir "$pod" && echo $$ >"$pod/cgroup.procs"; } 2>/dev/null || echo "no cpu cgroup can be made: ranks do not share CPUs as in a pod" >&2
chmod 755 "$work"
cp bin/mpiup "$work/mpiup"
cp bin/libmpiup-watch.so "$work"
CGO_ENABLED=0 go build -o "$work/bench" ./test/bench
mpicc.mpich -O2 -rdynamic -o "$work/hello" examples/hello/hello.c
mpicc.mpich -O2 -o "$work/watched" test/mpi/watched.c

echo "$(nproc) cores, $(awk -F ': ' '/model name/ { print $2; exit }' /proc/cpuinfo), Linux $(uname -r), load $(cut -d' ' -f1-3 /proc/loadavg), $("$work/mpiup" version)"
failed=0
only=command,watch,start,flood,kill,memory
if [ ! -x "$peers/compare.sh" ]; then
    echo "no peers' scripts in $peers: mpiup alone"
elif ! missing=$(test/bench/peers.sh missing); then
    echo "peers are not installed ($missing; make bench-peers): mpiup alone"
else
    only=command,watch,memory
    # Own mounts and processes: names in /run/netns are nobody else's, and nothing outlives this.
    nice -n "${NICE:--15}" unshare --mount --pid --fork --kill-child --mount-proc --propagation private \
        test/bench/peers.sh run "$peers" "$work" "$rounds" || failed=1
    echo
fi
# What an agent does once, in time of one processor, which other programs change little.
ms=$(go test -run '^$' -bench '^BenchmarkInventory$' -benchtime 50x ./topology/discover | reported cpu-ms/op)
within "inventory of 8 GPUs, 8 HCAs, 128 CPUs" "$ms" ms 20 || failed=1
# What binding adds to the start of a rank.
ms=$(go test -run '^$' -bench '^BenchmarkPin$' -benchtime 1000x ./agent/reap | reported ms/rank)
within "pinning of a rank" "$ms" ms 1 || failed=1
nice -n "${NICE:--15}" test/bench/stream.sh "$work/mpiup" "$work" $((3 * rounds)) || failed=1
echo
# Frameworks: their first all-reduce against their own launchers, and Horovod's rendezvous against Horovod's server.
only+=,rendezvous64,rendezvous512
horovod=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/frameworks/horovod/bin/python
[ -x "$horovod" ] || { horovod=; echo "no Horovod here (test/frameworks.sh horovod): mpiup's rendezvous alone"; }
if [ -e /usr/lib/python3/dist-packages/torch/version.py ]; then
    only+=,trainings
else
    echo "no torch of Debian's here (python3-torch): no training is started"
fi
# What failures cost, against mpirun over OpenSSH and torchrun.
if command -v mpicc.openmpi >/dev/null; then only+=,restarts; else echo "no Open MPI here (make bench-peers): its restarts are not measured"; fi
torch=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/frameworks/torch/bin/python
if [ -x "$torch" ]; then only+=,torchrestarts; else torch=; echo "no torch here (test/frameworks.sh torch): its restarts are not measured"; fi
nice -n "${NICE:--15}" "$work/bench" -mpiup "$work/mpiup" -hello "$work/hello" -watched "$work/watched" -pairs "${PAIRS:-0}" -rounds "$rounds" -most "$((most > SECONDS ? most - SECONDS : 1))s" -only "$only" -source "$PWD" -horovod "$horovod" -torch "$torch" || failed=1
exit $failed
