#!/usr/bin/env bash
# Brings what cells of the matrix run with, once, into $XDG_CACHE_HOME/mpiup (~/.cache/mpiup):
#
#   prepare.sh tree SUITE              SUITE/, a tree of Debian's with its MPI libraries (debootstrap)
#   prepare.sh wheels NAME WHEEL...    matrix/NAME/, a virtual environment of the system's Python
#   prepare.sh suite VERSION           matrix/mpi4py-VERSION/, mpi4py's sources with its test suite
#
# Nothing of it belongs into the repository. Hosts see no other Python than the system's.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup
mkdir -p "$cache/matrix"
exec 9>"$cache/matrix/lock"
flock -w 900 9 || { echo "another prepare.sh runs" >&2; exit 1; }

quietly() { # quietly LOG COMMAND...
    local log=$1
    shift
    "$@" >"$log" 2>&1 || { tail -20 "$log" >&2; return 1; }
}

in_tree() { chroot "$tree" env DEBIAN_FRONTEND=noninteractive "$@"; }

tree() {
    local suite=$1
    tree=$cache/$suite
    [ ! -e "$tree.done" ] || return 0
    [ "$(id -u)" = 0 ] || { echo "chroot needs root" >&2; return 1; }
    command -v debootstrap >/dev/null || quietly "$cache/debootstrap.log" apt-get install -y debootstrap
    echo "making a tree of Debian $suite in $tree"
    rm -rf --one-file-system "$tree"
    quietly "$tree.log" debootstrap --variant=minbase --include=ca-certificates "$suite" "$tree" http://deb.debian.org/debian
    # Packages' own services are not to start. What is mounted here is gone with the namespace.
    printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
    chmod +x "$tree/usr/sbin/policy-rc.d"
    quietly "$tree.log" unshare -m "$0" packages "$tree"
    : >"$tree.done"
}

packages() {
    tree=$1
    mount -t proc proc "$tree/proc"
    in_tree apt-get update
    in_tree apt-get install -y --no-install-recommends gcc libc6-dev openmpi-bin libopenmpi-dev libpmix-dev \
        mpich libmpich-dev python3-mpi4py python3-numpy
    in_tree apt-get clean
}

wheels() {
    local venv=$cache/matrix/$1
    shift
    [ ! -e "$venv/$*" ] || return 0
    echo "installing $* into $venv"
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"
    if [ "${venv##*/}" = plain ]; then # mpi4py asks for MPICH by the name that is not Debian's
        mkdir "$venv/mpich"
        ln -s "/usr/lib/$(gcc -print-multiarch)/libmpich.so.12" "$venv/mpich/libmpi.so.12"
    fi
    touch "$venv/$*"
}

suite() {
    local to=$cache/matrix/mpi4py-$1 work=$cache/matrix/sdist
    [ ! -e "$to/test/main.py" ] || return 0
    echo "fetching the sources of mpi4py $1"
    rm -rf "$work"
    /usr/bin/python3 -m venv "$work"
    quietly "$work/log" "$work/bin/pip" download --disable-pip-version-check --no-deps --no-binary :all: -d "$work" "mpi4py==$1"
    tar -C "$cache/matrix" -xzf "$work/mpi4py-$1.tar.gz"
    rm -rf "$work"
}

case ${1-} in
    packages) packages "$2" ;;
    tree | wheels | suite) "$@" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
