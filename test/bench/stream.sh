#!/usr/bin/env bash
# stream.sh MPIUP WORK ROUNDS: a memory-bound program, one rank on each core, pinned by mpiup and by each MPI's own
# launcher in turn; medians of one run and their ratio. A launcher that pins otherwise, or leaves memory on
# another NUMA node, loses. Called by bench.sh; exits with 1 when a goal is missed on 4 cores or more.
set -euo pipefail
cd "$(dirname "$0")"
. ./goals.sh
mpiup=$1 work=$2 rounds=$3
if ! command -v mpicc.mpich mpiexec.hydra mpicc.openmpi mpirun.openmpi >/dev/null; then
    echo "stream: not measured, MPICH and Open MPI are not both here"
    exit 0
fi
mpicc.mpich -O3 -o "$work/stream-mpich" triad/stream.c
mpicc.openmpi -O3 -o "$work/stream-openmpi" triad/stream.c
cores=$("$mpiup" topo --json | awk '/"cores":/ { gsub(/[^0-9]/, ""); print; exit }')
mib=16
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

launch() { # launch LAUNCHER PROGRAM
    case $1 in
        mpiup) timeout 120 "$mpiup" run -n "$cores" --map-by core --bind-to core "$work/stream-$2" $mib ;;
        openmpi) timeout 120 mpirun.openmpi -n "$cores" --map-by core --bind-to core "$work/stream-$2" $mib ;;
        hydra) timeout 120 mpiexec.hydra -n "$cores" -map-by core -bind-to core "$work/stream-$2" $mib ;;
    esac
}
for ((round = 0; round < rounds; round++)); do
    for pair in "mpiup mpich" "hydra mpich" "mpiup openmpi" "openmpi openmpi"; do
        # A run that fails is told of and not counted.
        launch $pair 2>"$work/stream.err" | awk -v p="$pair" 'NF == 1 { print p, $1 }' >>"$work/stream.txt" || cat "$work/stream.err" >&2
    done
done
triad() { awk -v l="$1" -v p="$2" '$1 == l && $2 == p { print $3 }' "$work/stream.txt" | middle; }
printf '%-36s %9s  %-18s %9s\n' "triad of $cores pinned ranks" mpiup peer ""
judge "MPICH, MB/s" "$(triad mpiup mpich)" hydra "$(triad hydra mpich)" 0.95
judge "Open MPI, MB/s" "$(triad mpiup openmpi)" openmpi "$(triad openmpi openmpi)" 0.95
[ "$missed" = 0 ] || [ "$(nproc)" -lt 4 ]
