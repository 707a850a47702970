#!/usr/bin/env bash
# node.sh N: makes node N. Its first process waits, and its pid on this machine is in run/nodeN.pid.
set -euo pipefail
. "$(dirname "$0")/versions.sh"
. "$(dirname "$0")/nodes.sh"
n=$1 home=$run/node$1
mkdir -p "$home"/{containerd,kubelet,var,etc,cni,log}
for h in $(hierarchies); do
    mkdir -p "$h/$name-$n"
    case $h in *cpuset*) # a new cpuset has no CPUs
        cat "$h/cpuset.cpus" >"$h/$name-$n/cpuset.cpus"
        cat "$h/cpuset.mems" >"$h/$name-$n/cpuset.mems"
        echo 1 >"$h/$name-$n/cgroup.clone_children" ;;
    esac
done
printf '127.0.0.1 localhost\n10.99.0.11 node1\n10.99.0.12 node2\n' >"$home/etc/hosts"
: >"$home/etc/resolv.conf"

cat >"$home/init.sh" <<INIT
set -e
mount --make-rprivate / && mount --make-rshared /
hostname node$n
ip link set lo up
mount -t overlay overlay -o lowerdir=$CLUSTER/debian/usr:/usr /usr
groups="$(hierarchies | xargs -n1 basename | tr '\n' ' ')"
umount -l -R /sys
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /sys/fs/cgroup
for c in \$groups; do
    mkdir /sys/fs/cgroup/\$c
    case \$c in systemd) o=none,name=systemd ;; *) o=\$c ;; esac
    mount -t cgroup -o \$o cgroup /sys/fs/cgroup/\$c
done
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir -p /var/lib/containerd /var/lib/kubelet
mount --bind $home/containerd /var/lib/containerd
mount --bind $home/kubelet /var/lib/kubelet
mount --bind $home/var /var/log
mkdir -p /var/log/pods /var/log/containers
mount --bind $home/etc/hosts /etc/hosts
echo 1 >/proc/sys/net/ipv4/ip_forward
# The kubelet sets these for the whole kernel where they are not so: it reads what it wants here.
while read -r key value; do
    echo \$value >$home/etc/\${key##*/}
    mount --bind $home/etc/\${key##*/} /proc/sys/\$key
done <<KEYS
vm/overcommit_memory 1
kernel/panic 10
kernel/panic_on_oops 1
KEYS
touch $home/ready
while :; do sleep 1000 & wait \$!; done # bash reaps what is left to it
INIT

rm -f "$home/ready"
(
    enter "$n"
    exec setsid unshare -m -n -u -i -C -p -f --mount-proc bash "$home/init.sh"
) </dev/null >"$home/log/init.log" 2>&1 &
outer=$!
if ! eventually 10 test -e "$home/ready"; then cat "$home/log/init.log" >&2; exit 1; fi
tr -d ' ' <"/proc/$outer/task/$outer/children" >"$run/node$n.pid"
