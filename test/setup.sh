#!/usr/bin/env bash
# Sees to it that what a make target needs is there: says what is missing, or installs it
# where that is possible (root on Debian or Ubuntu).
#
#   test/setup.sh go|demo|test|peers|image ...
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need() { # need PROGRAM PACKAGE...: the packages are wanted when the program is not there
    command -v "$1" >/dev/null 2>&1 || missing+=("${@:2}")
}

go_toolchain() {
    local want have
    want=$(awk '$1 == "go" { print $2 }' go.mod)
    if ! command -v go >/dev/null; then
        echo "mpiup is built with Go $want or later, and there is no go on PATH." >&2
        echo "Unpack the archive of go.dev/dl to /usr/local and add /usr/local/go/bin to PATH." >&2
        exit 1
    fi
    have=$(GOTOOLCHAIN=local go env GOVERSION) # go1.26.8
    if [ "$(printf '%s\n' "${want%.0}" "${have#go}" | sort -V | head -1)" != "${want%.0}" ]; then
        echo "mpiup is built with Go $want or later; this one is $have ($(command -v go))." >&2
        echo "Unpack a newer archive of go.dev/dl to /usr/local, or let go fetch it: GOTOOLCHAIN=auto." >&2
        [ "$(go env GOTOOLCHAIN)" != local ] || exit 1
    fi
}

mpi() {
    need gcc gcc libc6-dev
    need mpicc.mpich mpich libmpich-dev
}

hosts() {
    need ip iproute2
    need nsenter util-linux
}

for what; do
    case $what in
        go) go_toolchain ;;
        demo) mpi; hosts ;;
        test) mpi; hosts; need protoc protobuf-compiler ;;
        peers)
            mpi; hosts
            need mpirun.openmpi openmpi-bin libopenmpi-dev
            need sshd openssh-server
            need srun slurmctld slurmd slurm-client munge
            need lstopo-no-graphics hwloc-nox
            need pkg-config pkg-config
            [ -e /usr/include/pmix.h ] || compgen -G '/usr/lib/*/pmix2/include/pmix.h' >/dev/null ||
                missing+=(libpmix-dev)
            ;;
        image) need debootstrap debootstrap ;;
        *) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done

[ ${#missing[@]} -gt 0 ] || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing here: ${missing[*]} (Debian's names). Install them, or run this as root on Debian." >&2
    exit 1
fi
echo "installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    echo "apt-get could not install ${missing[*]}; its last lines are above." >&2
    exit 1
fi
