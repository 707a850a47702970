# shellcheck shell=bash disable=SC2154 # sourced after versions.sh
# A node is a set of namespaces (mount, pid, net, uts, ipc, cgroup) with cgroups of its own. Sourced by the scripts
# beside it. Nothing is mounted, routed or installed in the machine itself, and the end of a node's first process ends all
# that runs in it.
#
#	nodes' network   10.99.0.0/24: node N is 10.99.0.1N, and a bridge in node 1 joins them
#	pods             10.244.N.0/24
#	services         10.96.0.0/16
run=$CLUSTER/run
name=mpiup-cluster # of cgroups

# hierarchies are the machine's cgroup hierarchies, of version 1.
hierarchies() { awk '$3 == "cgroup" { print $2 }' /proc/self/mounts; }

# enter N: this process is in node N's cgroups from now on.
enter() {
    local h
    for h in $(hierarchies); do echo "$BASHPID" >"$h/$name-$1/cgroup.procs"; done
}

# in_node N COMMAND...: runs a command in node N.
in_node() (
    n=$1; shift
    enter "$n"
    exec nsenter -t "$(cat "$run/node$n.pid")" -m -n -u -i -C -p \
        env PATH="$CLUSTER/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"
)

# daemon N NAME COMMAND...: starts a command in node N that goes on, with a log.
daemon() {
    local n=$1 log=$run/node$1/log/$2.log; shift 2
    (in_node "$n" setsid "$@") >"$log" 2>&1 </dev/null &
}

# kubectl as the administrator. It asks over the nodes' network.
kubectl() { nsenter -t "$(cat "$run/node1.pid")" -n "$CLUSTER/bin/kubectl" --kubeconfig "$run/admin.kubeconfig" --cache-dir "$run/kubectl" "$@"; }

# eventually SECONDS COMMAND...: until it succeeds.
eventually() {
    local end=$((SECONDS + $1)); shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || { echo "not within its time: $*" >&2; return 1; }
        sleep 0.2
    done
}
