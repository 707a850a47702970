# Sourced by peers.sh, by stream.sh for judge, and by bench.sh for within: medians of the run that $b/raw/times.tsv, $work/flood and $work/kill
# hold, and the goals they are judged by. Goals are ratios of medians of one run, since they
# hold on a busy machine too.

# median SHAPE LAUNCHER PROGRAM FIELD (5: wall, 9: to the first barrier)
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
    printf '%-36s %9s  %-18s %9s  ratio %-6s goal %-5s %s\n' "$1" "$2" "$3" "$4" "$ratio" "$5" "$verdict"
}

# within WHAT OURS UNIT LIMIT: OURS may be LIMIT at most, on any machine; fails where it is not.
within() {
    local verdict=ok
    awk -v v="$2" -v l="$4" 'BEGIN { exit !(v != "" && v + 0 <= l + 0) }' || verdict=MISSED
    printf '%s  %s %s  goal %s  %s\n\n' "$1" "${2:--}" "$3" "$4" "$verdict"
    [ $verdict = ok ]
}
# reported UNIT: the value with that unit in what go test -bench says.
reported() { awk -v u="$1" '/^Benchmark/ { for (i = 2; i < NF; i++) if ($(i + 1) == u) v = $i } END { print v }'; }

barrier() { # barrier SHAPE PEER LIMIT MPI
    judge "$1 $4 to first barrier, ms" "$(median "$1" "mpiup-$4" init 9)" "$2" "$(median "$1" "$2" init 9)" "$3"
}

# drop_in_goals: one command line with another ssh or another mpirun. An ssh that costs nothing reaches 0.57 at
# 16x1, 0.75 at 16x4, and 0.48 for true.
drop_in_goals() {
    local s
    drop() { judge "$1 $2" "$(median "$3" "$4" "$5" "$6")" "$7" "$(median "$3" "$7" "$5" "$6")" "$8"; }
    for s in 16x1 16x4; do
        drop $s "mpirun over mpiup's ssh, ms" $s over-mpiup init 9 over-openssh "$([ $s = 16x1 ] && echo 0.7 || echo 0.9)"
        drop $s "mpiup as mpirun, ms" $s as-mpirun init 9 over-openssh "$([ $s = 16x1 ] && echo 0.25 || echo 0.4)"
        # No goals were set for these.
        drop $s "the same, default settings, ms" $s plain-as-mpirun init 9 plain-openmpi 1
        drop $s "mpiup as Hydra, defaults, ms" $s plain-as-hydra init 9 plain-hydra 1
        drop $s "Hydra over mpiup's ssh, ms" $s hydra-over-mpiup init 9 hydra-over-openssh 1
    done
    drop 16x1 "true, mpirun over mpiup's ssh, ms" 16x1 over-mpiup true 5 over-openssh 0.6
}

# goals of a run: a launcher that knows the machine, then every peer.
goals() {
    local s p
    printf '\n%-36s %9s  %-18s %9s\n' "medians of this run" mpiup peer ""
    for s in 1x4 4x2 16x1; do
        barrier $s floor-pmi1-xml "$([ $s = 4x2 ] && echo 1.25 || echo 1.10)" mpich
        barrier $s floor-pmix-xml 1.25 openmpi
        barrier $s floor-pmi1 1 mpich
        barrier $s floor-pmix-notopo 1 openmpi
        barrier $s hydra 1 mpich
        barrier $s srun-pmi2 "$([ $s = 16x1 ] && echo 0.6 || echo 1)" mpich
        for p in openmpi srun-pmix; do barrier $s $p 1 openmpi; done
    done
    barrier 1x4 local-hydra 0.9 mpich
    barrier 1x4 local-openmpi 1 openmpi
    if [ -z "$(dvm_missing)" ]; then
        for s in 4x2 16x1; do
            judge "$s Open MPI 5 to first barrier, ms" "$(median $s mpiup-ompi5 init 9)" prun "$(median $s prun init 9)" 1
        done
    else
        echo "prun on a running DVM: not measured, no $(dvm_missing)"
    fi
    drop_in_goals
    judge "16x1 true, ms" "$(median 16x1 mpiup-mpich true 5)" srun-pmi2 "$(median 16x1 srun-pmi2 true 5)" 0.25
    judge "16x1 true, ms" "$(median 16x1 mpiup-mpich true 5)" openmpi "$(median 16x1 openmpi true 5)" 0.1
    judge "64x1 true, ms" "$(median 64x1 mpiup-mpich true 5)" srun-pmi2 "$(median 64x1 srun-pmi2 true 5)" 0.25
    judge "4x1 output, MB/s" "$(rate mpiup-mpich)" hydra "$(rate hydra)" 1.2
    for p in hydra srun-pmi2 openmpi; do
        judge "4x2 kill -9 of a rank to exit, ms" "$(killed mpiup-mpich)" $p "$(killed $p)" 1
    done
    [ "$missed" = 0 ] || { echo "$missed goals missed or not measured" >&2; return 1; }
}
rate() { awk -v n="$1" '$1 == n { print $4 }' "$work/flood" | middle; }
killed() { awk -v n="$1" '$1 == n && $2 == "rank9" { print $3 }' "$work/kill" | middle; }
