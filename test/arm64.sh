#!/usr/bin/env bash
# make arm64: the binary for arm64 in a tree of Debian's arm64 packages, under qemu-user: version, topo, its helper, examples/hello with
# Debian's MPICH and Open MPI, on one host and by an agent, the readiness probe, and doctor.
#
# The tree is unpacked, not installed: no script of a package runs. Needs root for mmdebstrap, minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
test/setup.sh go arm64
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/arm64
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -w 600 9 || { echo "another make arm64 runs" >&2; exit 1; }
suite=bookworm
if [ ! -e "$cache/$suite.done" ]; then
    rm -rf --one-file-system "${cache:?}/$suite"
    mirror=$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" { print $2; exit }' /etc/apt/sources.list.d/* /etc/apt/sources.list 2>/dev/null || true)
    mmdebstrap --variant=extract --architectures=arm64 \
        --include=bash,coreutils,libc6-dev,mpich,libmpich-dev,openmpi-bin,libopenmpi-dev "$suite" "$cache/$suite" ${mirror:+"$mirror"} >"$cache/mmdebstrap.log" 2>&1 ||
        { tail -20 "$cache/mmdebstrap.log" >&2; exit 1; }
    : >"$cache/$suite.done"
fi
root=$cache/$suite
CGO_ENABLED=0 GOARCH=arm64 go build -tags grpcnotrace -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION:-arm64-check}" -o "$root/mpiup" ./cmd/mpiup
CGO_ENABLED=1 GOARCH=arm64 CC=aarch64-linux-gnu-gcc go build -trimpath -buildvcs=false -ldflags '-s -w -extldflags=-Wl,-z,lazy' -o "$root/mpiup-nvml" ./cmd/mpiup-nvml
agent/watch/preload/build.sh aarch64-linux-gnu-gcc "$root/libmpiup-watch.so"
lib=$root/usr/lib/aarch64-linux-gnu
compile() { # compile OUT HEADERS LIBRARY [SOURCE]: what the library's own mpicc would do
    aarch64-linux-gnu-gcc -O2 -rdynamic -o "$root/$1" "${4-examples/hello/hello.c}" -I"$2" "$lib/$3" -Wl,--allow-shlib-undefined
}
compile hello-mpich "$lib/mpich/include" libmpich.so.12
compile hello-openmpi "$lib/openmpi/include" libmpi.so.40
compile waits-mpich "$lib/mpich/include" libmpich.so.12 test/mpi/waits.c
compile waits-openmpi "$lib/openmpi/include" libmpi.so.40 test/mpi/waits.c
printf '127.0.0.1 localhost %s\n' "$(cat /proc/sys/kernel/hostname)" >"$root/etc/hosts"

export root
test/qemu.sh bash -euo pipefail -c '
mkdir -p "$root/proc" "$root/dev" "$root/sys" "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
in_root() { env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
says() { # says WHAT WANTED GOT
    [[ $3 == *"$2"* ]] || { printf "%s says\n%s\nand not %s\n" "$1" "$3" "$2" >&2; exit 1; }
    printf "%s: ok\n" "$1"
}
arm() { in_root chroot "$root" "$@"; }
says "version" "linux/arm64)" "$(arm /mpiup version)"
arm /mpiup version
topo=$(arm /mpiup topo)
says "topo" "CPU" "$topo"
printf "%s\n" "$topo" | head -12
says "mpiup-nvml" "libnvidia-ml" "$(arm /mpiup-nvml 2>&1 || true)"
for mpi in mpich openmpi; do
    got=$(arm /mpiup run -v -n 3 --timeout 5m /hello-$mpi 2>&1) || { printf "%s\n" "$got" >&2; exit 1; }
    says "hello with $mpi, three ranks here" "2 of 3" "$got"
    printf "%s\n" "$got"
done
for mpi in mpich openmpi; do # the same to the last bit, and the late rank is named or the ranks, which poll, are seen to want for processors
    bare=$(arm /mpiup run -n 2 --timeout 5m --watch-ranks=false /waits-$mpi 0 0 -1 1 | sort)
    watched=$(arm /mpiup run -n 2 --timeout 5m --watch-ranks --watch-window 2s /waits-$mpi 50 0.1 1 2 2>"$root/tmp/watched" | sort)
    says "--watch-ranks with $mpi" "$bare" "$watched"
    grep -E "rank 1 .*the others waited|who is slow does not show: all ranks|the ranks wait for each other" "$root/tmp/watched" ||
        { cat "$root/tmp/watched" >&2; exit 1; }
done
arm /mpiup keygen >"$root/tmp/key"
arm /mpiup agent --key /tmp/key --listen 127.0.0.1 >"$root/tmp/agent.log" 2>&1 &
until grep -q "agent is ready" "$root/tmp/agent.log"; do kill -0 $!; done
probe() { # as a kubelet does: an answer that takes more than 2 s is none, and three of those are a failure
    for try in 1 2 3; do arm /mpiup agent --check --key /tmp/key 2>&1 && return; done
}
says "agent --check" "the agent of this container serves at 127.0.0.1" "$(probe || true)"
says "doctor" " answers" "$(arm /mpiup doctor -v --key /tmp/key --host 127.0.0.1 || true)"
for mpi in mpich openmpi; do
    got=$(arm /mpiup run --key /tmp/key --host 127.0.0.1:2 -n 2 --timeout 5m /hello-$mpi 2>&1) || { printf "%s\n" "$got" >&2; exit 1; }
    says "hello with $mpi, two ranks by an agent" "1 of 2" "$got"
done
arm /mpiup shutdown --key /tmp/key --host 127.0.0.1
wait $!
'
echo ok
