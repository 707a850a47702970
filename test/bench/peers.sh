#!/usr/bin/env bash
# Compares mpiup with Open MPI's and MPICH's own launchers over ssh, Slurm's srun and the floor
# (a launcher that does nothing but start processes): all take turns on the same hosts.
#
#   test/bench/peers.sh missing            names what the peers lack here; exit status 1 if so
#   test/bench/peers.sh run DIR WORK N     DIR: the peers' scripts; WORK: mpiup's binary, scratch;
#                                          N rounds. In namespaces of its own: see bench.sh
#
# The scripts write beside themselves, so they are copied to WORK. What they lack is a place for
# a daemon that serves all runs: agents are started here, on every host, before the first run.
set -euo pipefail

missing() {
    local lack=() p
    for p in mpirun.openmpi mpicc.openmpi mpirun.mpich sshd srun slurmctld slurmd munged pkg-config lstopo-no-graphics; do
        command -v $p >/dev/null || lack+=("$p")
    done
    pkg-config --exists pmix 2>/dev/null || lack+=(libpmix-dev)
    [ ${#lack[@]} = 0 ] || { echo "${lack[*]}"; return 1; }
}

agents=()
cluster_up() { # cluster_up N: hosts, peers' daemons, agents
    local h
    "$b/netns-cluster.sh" up "$1"
    "$b/peers-ssh.sh" up
    "$b/peers-slurm.sh" up
    agents=()
    for h in $("$b/netns-cluster.sh" hosts); do
        "$b/netns-cluster.sh" exec "$h" "$work/mpiup" agent --key "$work/key" >"$MB_RUN/agent.$h.log" 2>&1 </dev/null &
        agents+=($!)
    done
    local all
    all=$("$b/netns-cluster.sh" hosts | paste -sd,)
    "$b/netns-cluster.sh" exec launcher "$work/mpiup" run --key "$work/key" --host "$all" -N 1 true
}

cluster_down() {
    kill "${agents[@]}" 2>/dev/null || true
    wait "${agents[@]}" 2>/dev/null || true
    "$b/peers-slurm.sh" down >/dev/null 2>&1 || true
    "$b/peers-ssh.sh" down >/dev/null 2>&1 || true
    "$b/netns-cluster.sh" down
}

# median SHAPE LAUNCHER PROGRAM FIELD, of raw/times.tsv (5: wall, 9: to the first barrier)
median() {
    awk -F'\t' -v s="$1" -v l="$2" -v p="$3" -v f="$4" '$1 == s && $2 == l && $3 == p && $f ~ /^[0-9]/ { print $f }' \
        "$b/raw/times.tsv" | middle
}
middle() { sort -n | awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; else print "-" }'; }

missed=0
# judge WHAT OURS PEER THEIRS LIMIT: OURS/THEIRS may be LIMIT at most; for a rate ("MB/s") at least.
judge() {
    local ratio verdict=ok
    ratio=$(awk -v a="$2" -v b="$4" 'BEGIN { if (a > 0 && b > 0) printf "%.2f", a / b; else print "-" }')
    if [ "$ratio" = - ]; then
        verdict="not measured"
    elif [[ $1 == *MB/s* ]]; then
        awk -v r="$ratio" -v l="$5" 'BEGIN { exit !(r >= l) }' || verdict=MISSED
    else
        awk -v r="$ratio" -v l="$5" 'BEGIN { exit !(r <= l) }' || verdict=MISSED
    fi
    [ "$verdict" = ok ] || missed=$((missed + 1))
    printf '%-34s %9s  %-12s %9s  ratio %-6s goal %-5s %s\n' "$1" "$2" "$3" "$4" "$ratio" "$5" "$verdict"
}

run() {
    local peers=$1 rounds=$3
    work=$2 b=$2/peers
    cp -rL "$peers" "$b"
    chmod -R u+w "$b"
    export MB_RUN=$work/state
    mkdir -p /run/netns /etc/netns
    mount -t tmpfs tmpfs /run/netns
    mount -t tmpfs tmpfs /etc/netns
    "$work/mpiup" keygen >"$work/key"
    echo "mpiup | mpich | $work/mpiup run --key $work/key -x T0 --host {hosts:ppn} -n {np} {prog}" >>"$b/peers.list"
    "$b/build.sh"
    trap cluster_down EXIT

    cluster_up 16
    "$b/peers-bench.sh" -r "$rounds" -p floor-pmi1,openmpi,hydra,srun-pmi2,mpiup 4x2 16x1
    export PEERS=hydra,srun-pmi2,openmpi,mpiup
    "$b/peers-ops.sh" kill "$(((rounds + 1) / 2))" >"$work/kill"
    "$b/peers-ops.sh" flood "$(((rounds + 1) / 2))" >"$work/flood"
    cluster_down
    cluster_up 64
    "$b/peers-bench.sh" -r "$(((rounds + 1) / 2))" -p srun-pmi2,mpiup 64x1
    cluster_down
    trap - EXIT
    echo
    "$b/peers-bench.sh" -s
    summary
}

summary() {
    local s p
    printf '\n%-34s %9s  %-12s %9s\n' "medians of this run" mpiup peer ""
    for s in 4x2 16x1; do
        judge "$s MPICH to first barrier, ms" "$(median $s mpiup init 9)" floor-pmi1 "$(median $s floor-pmi1 init 9)" 1.25
        for p in openmpi hydra srun-pmi2; do
            judge "$s to first barrier, ms" "$(median $s mpiup init 9)" $p "$(median $s $p init 9)" 1
        done
    done
    judge "16x1 true, ms" "$(median 16x1 mpiup true 5)" srun-pmi2 "$(median 16x1 srun-pmi2 true 5)" 0.5
    judge "16x1 true, ms" "$(median 16x1 mpiup true 5)" openmpi "$(median 16x1 openmpi true 5)" 0.1
    judge "64x1 true, ms" "$(median 64x1 mpiup true 5)" srun-pmi2 "$(median 64x1 srun-pmi2 true 5)" 1
    judge "4x1 output, MB/s" "$(rate mpiup)" hydra "$(rate hydra)" 1
    # The goal is 50 ms where Hydra takes 19; a ratio holds on a busy machine too.
    for p in hydra srun-pmi2 openmpi; do
        judge "4x2 kill -9 of a rank to exit, ms" "$(killed mpiup)" $p "$(killed $p)" "$([ $p = hydra ] && echo 2.6 || echo 1)"
    done
    [ "$missed" = 0 ] || [ "$(nproc)" -lt 4 ] || { echo "$missed goals missed or not measured" >&2; return 1; }
}
rate() { awk -v n="$1" '$1 == n { print $4 }' "$work/flood" | middle; }
killed() { awk -v n="$1" '$1 == n && $2 == "rank9" { print $3 }' "$work/kill" | middle; }

case ${1:-} in
    missing) missing ;;
    run) shift; run "$@" ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
