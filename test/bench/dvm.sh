# Sourced by peers.sh: PRRTE's prun on daemons that already run, which is the fair comparison for
# agents that do. Both start the same Open MPI 5 program in the Debian 13 tree that make matrix
# keeps in the cache; $tree is a copy that this run may write to, seen by all hosts.

trixie=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/trixie

dvm_missing() { [ -e "$trixie.done" ] && [ -x "$trixie/usr/bin/prun" ] && [ -x "$trixie/usr/bin/mpicc.openmpi" ] || echo "Debian 13 tree (make matrix)"; }

# dvm_tree: the tree under $work, with the bench's programs where they are outside.
dvm_tree() {
    tree=$work/tree
    mkdir -p "$work/over/upper" "$work/over/work" "$tree"
    mount -t overlay -o "lowerdir=$trixie,upperdir=$work/over/upper,workdir=$work/over/work" overlay "$tree"
    mkdir -p "$tree$b/bin" "$tree$MB_RUN"
    cp "$work/mpiup" "$work/key" "$tree/"
    cp "$b/bin/mbtool" "$tree$b/bin/"
    ln -sf /mpiup "$tree/ssh"
    cp "$b/init.c" "$tree/init.c"
    chroot "$tree" mpicc.openmpi -O2 -o "$b/bin/init.openmpi" /init.c
}

dvm_up() { # dvm_up N: hosts whose agents live in the tree, and one DVM over all
    local h all
    "$b/netns-cluster.sh" up "$1"
    agents=()
    for h in $("$b/netns-cluster.sh" hosts) launcher; do
        "$b/netns-cluster.sh" exec "$h" mount -t proc proc "$tree/proc"
        "$b/netns-cluster.sh" exec "$h" mount --rbind /sys "$tree/sys"
        "$b/netns-cluster.sh" exec "$h" mount --rbind /dev "$tree/dev"
        "$b/netns-cluster.sh" exec "$h" sh -c "cp /etc/hosts '$tree/etc/hosts'"
        [ "$h" != launcher ] || break
        "$b/netns-cluster.sh" exec "$h" chroot "$tree" /mpiup agent --key /key >"$MB_RUN/agent.$h.log" 2>&1 </dev/null &
        agents+=($!)
    done
    all=$("$b/netns-cluster.sh" hosts | sed 's/$/:64/' | paste -sd,)
    "$b/netns-cluster.sh" exec launcher chroot "$tree" /mpiup run --key /key --host "$all" -N 1 true
    "$b/netns-cluster.sh" exec launcher chroot "$tree" env MPIUP_KEY=/key PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        prte --host "$all" --prtemca plm_ssh_agent /ssh --report-uri /dvm.uri --no-ready-msg >"$MB_RUN/dvm.log" 2>&1 </dev/null &
    agents+=($!)
    for ((i = 0; i < 300; i++)); do
        [ ! -s "$tree/dvm.uri" ] || return 0
        sleep 0.1
    done
    cat "$MB_RUN/dvm.log" >&2
    return 1
}

dvm_down() {
    kill "${agents[@]}" 2>/dev/null || true
    wait "${agents[@]}" 2>/dev/null || true
    "$b/netns-cluster.sh" down
}

dvm_run() { # dvm_run ROUNDS
    local in="chroot $tree env PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1"
    {
        echo "prun | openmpi | $in prun --dvm-uri file:/dvm.uri --map-by ppr:{ppn}:node -x T0 --host {hosts:ppn} -n {np} {prog}"
        echo "mpiup-ompi5 | openmpi | $in /mpiup run --key /key -x T0 $ompi --host {hosts:ppn} -n {np} {prog}"
    } >>"$b/peers.list"
    dvm_up 16
    MB_LIMIT=15 "$b/peers-bench.sh" -r "$1" -p prun,mpiup-ompi5 4x2 16x1 # a prun that hangs costs no more
    dvm_down
}
