# enter.sh TREE DIR CACHE [COMMAND...]: makes the host's own mounts, DIR and CACHE visible in TREE, as a container's
# runtime would, and runs COMMAND in it. It is sourced by sh -c on a test host, whose mounts are its own.
tree=$1
shift
for d in proc sys dev dev/shm tmp run; do
    mount -n --bind "/$d" "$tree/$d" || exit
done
for d in "$1" "$2"; do
    mkdir -p "$tree$d" && mount -n --bind "$d" "$tree$d" || exit
done
shift 2
for f in hosts resolv.conf; do
    touch "$tree/etc/$f" && mount -n --bind "/etc/$f" "$tree/etc/$f" || exit
done
[ $# = 0 ] || exec chroot "$tree" "$@"
