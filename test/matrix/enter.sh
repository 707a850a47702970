# enter.sh TREE DIR [COMMAND...]: makes the host's own mounts and DIR visible in TREE, as a container's runtime
# would, and runs COMMAND in it. It is sourced by sh -c on a test host, whose mounts are its own.
tree=$1 dir=$2
shift 2
for d in proc sys dev dev/shm tmp run; do
    mount -n --bind "/$d" "$tree/$d" || exit
done
mkdir -p "$tree$dir" && mount -n --bind "$dir" "$tree$dir" || exit
for f in hosts resolv.conf; do
    touch "$tree/etc/$f" && mount -n --bind "/etc/$f" "$tree/etc/$f" || exit
done
[ $# = 0 ] || exec chroot "$tree" "$@"
