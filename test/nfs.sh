#!/usr/bin/env bash
# make nfs: mpiup doctor --shared on a real NFS. NFS-Ganesha exports a directory, and two Linux kernels of Debian's user-mode-linux mount it,
# each with an agent: with locks, with locks that are each host's own, and ended by a signal.
#
# All of it is in namespaces of its own (network, mounts, processes) and ends with them. Needs root, /dev/net/tun, a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${NFS_WORK:-}" ]; then
    test/setup.sh go nfs
    NFS_WORK=$(mktemp -d /var/tmp/mpiup-nfs-XXXXXX)
    export NFS_WORK
    trap 'rm -rf --one-file-system "$NFS_WORK"' EXIT
    CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -o "$NFS_WORK/mpiup" ./cmd/mpiup
    "$NFS_WORK/mpiup" keygen >"$NFS_WORK/key"
    unshare --net --mount --pid --fork --kill-child --mount-proc "$0"
    exit
fi
cd "$NFS_WORK"
mount -t tmpfs run /run
mkdir -p /run/ganesha /run/rpcbind export recovery modules/lib
ln -s /usr/lib/uml/modules modules/lib/modules
chmod 1777 export
ip link set lo up
ip link add br0 type bridge
ip addr add 10.98.0.1/24 dev br0
ip link set br0 up
for i in 1 2; do ip tuntap add "tap$i" mode tap && ip link set "tap$i" master br0 up; done

await() { # await PID LOG COMMAND...: until it succeeds, while the process lives
    until "${@:3}" 2>/dev/null; do kill -0 "$1" || { tail -20 "$2" >&2; exit 1; }; sleep 0.1; done
}
cat >ganesha.conf <<END
NFS_CORE_PARAM { Protocols = 3, 4; Enable_UDP = false; Enable_NLM = false; Enable_RQUOTA = false; MNT_Port = 20048; }
NFSv4 { Graceless = true; RecoveryRoot = $NFS_WORK/recovery; }
EXPORT { Export_Id = 1; Path = $NFS_WORK/export; Pseudo = /data; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; FSAL { Name = VFS; } }
END
rpcbind -f -w >rpcbind.log 2>&1 &
await $! rpcbind.log bash -c '</dev/tcp/127.0.0.1/111'
ganesha.nfsd -F -f ganesha.conf -L ganesha.log -p ganesha.pid >ganesha.out 2>&1 &
await $! ganesha.log grep -q 'NFS SERVER INITIALIZED' ganesha.log

# What a guest does; its root is this machine's, read-only, and its words are on the kernel's command line.
cat >init.sh <<'END'
#!/bin/bash
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sys /sys
for w in $(cat /proc/cmdline); do case $w in NFS_*) export "$w" ;; esac; done
for d in /tmp /run /mnt; do mount -t tmpfs tmp $d; done
mkdir -p /dev/shm /mnt/data; mount -t tmpfs shm /dev/shm
modprobe -d "$NFS_WORK/modules" nfsv4; modprobe -d "$NFS_WORK/modules" nfsv3
hostname "$NFS_NAME"; ip link set lo up; ip link set vec0 up; ip addr add "$NFS_IP/24" dev vec0
mount -t nfs -o "$NFS_OPTIONS" "10.98.0.1:$NFS_PATH" /mnt/data && grep /mnt/data /proc/mounts
exec "$NFS_WORK/mpiup" agent --key "$NFS_WORK/key" --listen "$NFS_IP"
END
chmod +x init.sh
pids=()
guests() { # guests OPTIONS PATH
    for i in 1 2; do
        TMPDIR=/dev/shm linux.uml mem=512M root=/dev/root rootfstype=hostfs hostfs=/ ro init="$NFS_WORK/init.sh" "vec0:transport=tap,ifname=tap$i,depth=128,gro=1" \
            con=null con0=null,fd:1 con1=null quiet "NFS_WORK=$NFS_WORK" "NFS_NAME=w$i" "NFS_IP=10.98.0.1$i" "NFS_OPTIONS=$1" "NFS_PATH=$2" </dev/null >"w$i.log" 2>&1 &
        pids[i]=$!
    done
    for i in 1 2; do await "${pids[i]}" "w$i.log" grep -q 'agent is ready' "w$i.log"; done
    grep -h /mnt/data w1.log
}
ends() { # ends CODE WANTED PART TEXT: of doctor, which leaves nothing
    printf '%s\n' "$4" | grep -E '/mnt/data|→ mount it with|got SIG'
    [[ $1 == "$2" && $4 == *"$3"* ]] || { printf 'it ended with %s, not %s, and says\n%s\nand not %s\n' "$1" "$2" "$4" "$3" >&2; exit 1; }
    left=$(ls -A export)
    [ -z "$left" ] || { echo "left in the directory: $left" >&2; exit 1; }
}
doctor=(./mpiup doctor --key key --host "10.98.0.11:1,10.98.0.12:1" --shared /mnt/data --shared-size)

guests vers=4.2 /data
code=0 said=$("${doctor[@]}" 16 2>&1) || code=$?
ends "$code" 0 "a lock kept every other host out; a counter was raised 40 times under one, and none was lost" "$said"
"${doctor[@]}" 400 >signal.log 2>&1 &
await $! signal.log compgen -G 'export/.mpiup-doctor-*/data-*' >/dev/null
kill -TERM $! # a shell lets no background process of its scripts hear INT
code=0; wait $! || code=$?
ends "$code" 143 "what it wrote in /mnt/data has been removed" "$(<signal.log)"
kill "${pids[@]}"; wait "${pids[@]}" || true

guests vers=3,nolock,proto=tcp "$NFS_WORK/export"
code=0 said=$("${doctor[@]}" 4 2>&1) || code=$?
ends "$code" 1 "they do not hold between hosts: what another host had locked could be locked here" "$said"
echo ok
