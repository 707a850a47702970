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
. "$(dirname "$0")/goals.sh"
. "$(dirname "$0")/dvm.sh"

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

# drop_in adds contenders that run one and the same command line: mpirun of Open MPI over OpenSSH
# and over mpiup's ssh, and mpiup as mpirun; Hydra likewise. "plain" is without lib.sh's choice of
# transports: default settings against default settings, of Open MPI and of MPICH.
drop_in() {
    local names=$work/names env="env MPIUP_KEY=$work/key" name plain
    plain="env -u OMPI_MCA_pml -u OMPI_MCA_btl -u OMPI_MCA_mpi_yield_when_idle"
    mkdir -p "$names"
    for name in ssh mpirun mpiexec.hydra; do ln -sf "$work/mpiup" "$names/$name"; done
    local args="--allow-run-as-root --oversubscribe -x T0 --host {hosts:ppn} -np {np} {prog}"
    {
        echo "over-openssh | openmpi | mpirun.openmpi $args"
        echo "over-mpiup | openmpi | $env mpirun.openmpi --mca plm_rsh_agent $names/ssh $args"
        echo "as-mpirun | openmpi | $env $names/mpirun $args"
        echo "hydra-over-openssh | mpich | mpirun.mpich -launcher ssh -hosts {hosts} -ppn {ppn} -n {np} {prog}"
        echo "hydra-over-mpiup | mpich | $env mpirun.mpich -launcher ssh -launcher-exec $names/ssh -hosts {hosts} -ppn {ppn} -n {np} {prog}"
        echo "plain-openmpi | openmpi | $plain mpirun.openmpi $args"
        echo "plain-as-mpirun | openmpi | $plain $env $names/mpirun $args"
        echo "plain-hydra | mpich | $plain mpirun.mpich -launcher ssh -hosts {hosts} -ppn {ppn} -n {np} {prog}"
        echo "plain-as-hydra | mpich | $plain $env $names/mpiexec.hydra -launcher ssh -hosts {hosts} -ppn {ppn} -n {np} {prog}"
    } >>"$b/peers.list"
}

run() {
    local peers=$1 rounds=$3 mpi
    local starting=floor-pmi1,floor-pmi1-xml,floor-pmix,floor-pmix-notopo,floor-pmix-xml
    starting+=,openmpi,hydra,srun-pmi2,srun-pmix,local-openmpi,local-hydra,mpiup-mpich,mpiup-openmpi
    local dropping=over-openssh,over-mpiup,as-mpirun,hydra-over-openssh,hydra-over-mpiup,plain-openmpi,plain-as-mpirun
    dropping+=,plain-hydra,plain-as-hydra
    work=$2 b=$2/peers
    cp -rL "$peers" "$b"
    chmod -R u+w "$b"
    export MB_RUN=$work/state
    mkdir -p /run/netns /etc/netns
    mount -t tmpfs tmpfs /run/netns
    mount -t tmpfs tmpfs /etc/netns
    "$work/mpiup" keygen >"$work/key"
    drop_in
    # What lib.sh sets for all launchers, and mpirun of Open MPI sends along.
    local ompi="-x OMPI_MCA_pml -x OMPI_MCA_btl -x OMPI_MCA_mpi_yield_when_idle"
    for mpi in mpich openmpi; do
        echo "mpiup-$mpi | $mpi | $work/mpiup run --key $work/key -x T0 $ompi --host {hosts:ppn} -n {np} {prog}"
    done >>"$b/peers.list"
    "$b/build.sh"
    trap cluster_down EXIT

    cluster_up 16
    "$b/peers-bench.sh" -r "$rounds" -p "$starting" 1x4 4x2 16x1
    export PEERS=hydra,srun-pmi2,openmpi,mpiup-mpich
    "$b/peers-ops.sh" kill "$(((rounds + 1) / 2))" >"$work/kill"
    "$b/peers-ops.sh" flood "$(((rounds + 1) / 2))" >"$work/flood"
    # As a drop-in: the real launchers over mpiup's ssh, and mpiup under mpirun's name.
    "$b/peers-bench.sh" -r "$(((rounds + 1) / 2))" -p "$dropping" 16x1 16x4
    cluster_down
    cluster_up 64
    "$b/peers-bench.sh" -r "$(((rounds + 1) / 2))" -p srun-pmi2,mpiup-mpich 64x1
    cluster_down
    trap dvm_down EXIT
    [ -n "$(dvm_missing)" ] || { dvm_tree && dvm_run "$rounds"; }
    trap - EXIT
    echo
    "$b/peers-bench.sh" -s
    goals
}

case ${1:-} in
    missing) missing ;;
    run) shift; run "$@" ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
