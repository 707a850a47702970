#!/usr/bin/env bash
# Sees to it that what a make target needs is there: says what is missing, or installs it
# where that is possible (root on Debian or Ubuntu).
#
#   test/setup.sh go|demo|test|browser|peers|image|images|release|arm64|nfs|yama ...
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need() { # need PROGRAM PACKAGE...: the packages are wanted when the program is not there
    command -v "$1" >/dev/null 2>&1 || missing+=("${@:2}")
}

# Where a Go toolchain goes that this script had to bring; the Makefile has it on PATH.
cached_go=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/go
go_version=1.26.8

go_toolchain() {
    local want have=
    want=$(awk '$1 == "go" { print $2 }' go.mod)
    want=${want%.0}
    PATH=$cached_go/bin:$PATH
    if command -v go >/dev/null; then
        have=$(GOTOOLCHAIN=local go version | awk '{ print $3 }') # go1.26.8
        have=${have#go}
        [ "$(printf '%s\n' "$want" "$have" | sort -V | head -1)" != "$want" ] || return 0
        case $have in 1.2[1-9]*) [ "$(go env GOTOOLCHAIN)" = local ] || return 0 ;; esac # it fetches the newer one itself
    fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "mpiup is built with Go $want or later, and here is ${have:-none}." >&2
        echo "Unpack the archive of go.dev/dl to /usr/local and add /usr/local/go/bin to PATH, or run this as root on Debian." >&2
        exit 1
    fi
    [ -n "$have" ] || missing+=(golang-go)
    bring_go=yes
}

# fetch_go brings the toolchain from the Go module proxy, with any older go to ask for it.
# Modules carry no modes, so programs are made executable here.
fetch_go() {
    local arch mod dir
    arch=$(dpkg --print-architecture)
    mod=golang.org/toolchain@v0.0.1-go$go_version.linux-$arch
    echo "fetching Go $go_version"
    dir=$(cd / && GOTOOLCHAIN=local GOFLAGS=-modcacherw go mod download -json "$mod" | awk -F '"' '$2 == "Dir" { print $4 }')
    chmod +x "$dir"/bin/* "$dir"/pkg/tool/*/*
    mkdir -p "${cached_go%/*}"
    ln -sfn "$dir" "$cached_go"
}
bring_go=

mpi() {
    need gcc gcc libc6-dev
    need mpicc.mpich mpich libmpich-dev
}

openmpi() {
    need mpicc.openmpi openmpi-bin libopenmpi-dev
    [ -e /usr/include/pmix.h ] || compgen -G '/usr/lib/*/pmix2/include/pmix.h' >/dev/null || missing+=(libpmix-dev)
}

hosts() {
    need ip iproute2
    need nsenter util-linux
}

for what; do
    case $what in
        go) go_toolchain ;;
        demo) mpi; hosts ;;
        test)
            mpi; openmpi; hosts; need protoc protobuf-compiler
            need lstopo-no-graphics hwloc-nox; need pdsh pdsh; need numastat numactl
            need ssh-keygen openssh-client; need openssl openssl; need ss iproute2; need setpriv util-linux; need eu-stack elfutils; need gdb gdb
            need prometheus prometheus; need promtool prometheus; need mandoc mandoc; need gfortran gfortran; need musl-gcc musl-tools
            [ -e /usr/lib/python3/dist-packages/torch/version.py ] || missing+=(python3-torch)
            compgen -G '/usr/lib/python3*/ensurepip' >/dev/null || missing+=(python3 python3-venv) # test/wheels.sh
            [ -e /usr/include/slurm/pmi2.h ] || missing+=(libpmi2-0-dev)
            ;;
        browser) need chromium chromium ;;
        peers)
            mpi; openmpi; hosts
            need sshd openssh-server
            need srun slurmctld slurmd slurm-client munge
            need lstopo-no-graphics hwloc-nox
            need pkg-config pkg-config
            ;;
        image) need debootstrap debootstrap ;;
        arm64)
            need mmdebstrap mmdebstrap; need qemu-aarch64-static qemu-user-static
            need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
            ;;
        nfs)
            need linux.uml user-mode-linux; need ganesha.nfsd nfs-ganesha nfs-ganesha-vfs
            need mount.nfs nfs-common; need rpcbind rpcbind; need modprobe kmod; need ip iproute2
            ;;
        yama) need qemu-system-x86_64 qemu-system-x86; need eu-stack elfutils; need cpio cpio; need setpriv util-linux ;;
        release) # each architecture's C compiler, for mpiup-nvml
            need x86_64-linux-gnu-gcc gcc libc6-dev
            need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
            need openssl openssl; need mandoc mandoc
            need mmdebstrap mmdebstrap; need dpkg-scanpackages dpkg-dev; need qemu-aarch64-static qemu-user-static # the images of Debian
            ;;
        images) need podman podman; need runc runc; need ip iproute2; mpi; openmpi ;; # to run them
        *) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

if [ ${#missing[@]} = 0 ]; then
    [ -z "$bring_go" ] || fetch_go
    exit 0
fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing here: ${missing[*]} (Debian's names). Install them, or run this as root on Debian." >&2
    exit 1
fi
echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { test/apt/apt.sh update && test/apt/apt.sh install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    echo "apt-get could not install ${missing[*]}; its last lines are above." >&2
    exit 1
fi
[ -z "$bring_go" ] || fetch_go
