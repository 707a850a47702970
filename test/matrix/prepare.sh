#!/usr/bin/env bash
# Brings what cells of the matrix run with, once, into $XDG_CACHE_HOME/mpiup (~/.cache/mpiup):
#
#   prepare.sh tree SUITE                SUITE/, a tree of Debian's or Ubuntu's with its MPI libraries (debootstrap)
#   prepare.sh wheels NAME WHEEL...      matrix/NAME/, a virtual environment of the system's Python
#   prepare.sh foreign VERSION WHEEL...  matrix/pythonVERSION/, wheels for a tree's Python
#   prepare.sh suite VERSION             matrix/mpi4py-VERSION/, mpi4py's sources with its test suite
#   prepare.sh pmix SUITE                matrix/pmix-SUITE/, openpmix's sources as Debian's SUITE has them
#
# Nothing of it belongs into the repository. Hosts see no other Python than the system's.
set -euo pipefail

cache=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup
mkdir -p "$cache/matrix"

quietly() { # quietly LOG COMMAND...
    local log=$1
    shift
    "$@" >"$log" 2>&1 || { tail -20 "$log" >&2; return 1; }
}

in_tree() { chroot "$tree" env DEBIAN_FRONTEND=noninteractive "$@"; }

tree() {
    local suite=$1 mirror=http://deb.debian.org/debian keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    local components=main script=$1
    tree=$cache/$suite
    [ ! -e "$tree.done" ] || return 0
    [ "$(id -u)" = 0 ] || { echo "chroot needs root" >&2; return 1; }
    command -v debootstrap >/dev/null || quietly "$cache/debootstrap.log" "$(dirname "${BASH_SOURCE[0]}")/../apt/apt.sh" install -y debootstrap
    case $suite in
        focal) # Ubuntu's keys are a package of Debian's since 13
            mirror=http://archive.ubuntu.com/ubuntu components=main,universe
            "$0" tree trixie
            keyring=$cache/trixie/usr/share/keyrings/ubuntu-archive-keyring.gpg
            [ -e "$keyring" ] || quietly "$tree.log" unshare -m "$0" packages trixie ubuntu-archive-keyring
            ;;
        forky) script=sid ;; # which this machine's debootstrap may not know by name
    esac
    echo "making a tree of $suite in $tree"
    rm -rf --one-file-system "$tree"
    quietly "$tree.log" debootstrap --variant=minbase --keyring="$keyring" --components="$components" --include=ca-certificates \
        "$suite" "$tree" "$mirror" "/usr/share/debootstrap/scripts/$script"
    # Packages' own services are not to start. What is mounted here is gone with the namespace.
    printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
    chmod +x "$tree/usr/sbin/policy-rc.d"
    quietly "$tree.log" unshare -m "$0" packages "$suite" gcc libc6-dev openmpi-bin libopenmpi-dev libpmix-dev \
        mpich libmpich-dev python3-mpi4py python3-numpy
    : >"$tree.done"
}

packages() { # packages SUITE PACKAGE...
    tree=$cache/$1
    mount -t proc proc "$tree/proc"
    in_tree apt-get -o Acquire::Check-Valid-Until=no update # of a mirror that lags, too
    in_tree apt-get install -y --no-install-recommends "${@:2}"
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
    [ "${venv##*/}" != plain ] || name_mpich "$venv"
    touch "$venv/$*"
}

name_mpich() { # mpi4py asks for MPICH by the name that is not Debian's
    mkdir "$1/mpich"
    ln -s "/usr/lib/$(gcc -print-multiarch)/libmpich.so.12" "$1/mpich/libmpi.so.12"
}

foreign() {
    local version=$1 to=$cache/matrix/python$1
    shift
    [ ! -e "$to/$*" ] || return 0
    echo "fetching $* for Python $version into $to"
    rm -rf "$to" "$to.pip"
    /usr/bin/python3 -m venv "$to.pip"
    "$to.pip/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version "$version" \
        --target "$to" "$@"
    rm -rf "$to.pip"
    name_mpich "$to"
    touch "$to/$*"
}

suite() {
    local to=$cache/matrix/mpi4py-$1 work=$cache/matrix/sdist-$1
    [ ! -e "$to/test/main.py" ] || return 0
    echo "fetching the sources of mpi4py $1"
    rm -rf "$work"
    /usr/bin/python3 -m venv "$work"
    quietly "$work/log" "$work/bin/pip" download --disable-pip-version-check --no-deps --no-binary :all: -d "$work" "mpi4py==$1"
    tar -C "$cache/matrix" -xzf "$work/mpi4py-$1.tar.gz"
    rm -rf "$work"
}

pmix() { # apt checks the index's signature and the files' sums; the system's own sources are not touched
    local to=$cache/matrix/pmix-$1 work=$cache/matrix/source-$1
    [ ! -e "$to/test/simple/simpclient.c" ] || return 0
    echo "fetching openpmix's sources of Debian's $1"
    rm -rf "$work"
    mkdir -p "$work/lists/partial" "$work/archives/partial"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $1 main" >"$work/sources.list"
    local apt=(apt-get -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work" -o APT::Sandbox::User=root)
    quietly "$work/log" "${apt[@]}" update
    (cd "$work" && quietly "$work/log" "${apt[@]}" source --download-only pmix)
    quietly "$work/log" dpkg-source --no-check -x "$work"/pmix_*.dsc "$work/pmix" # apt has checked the sums
    rm -rf "$to"
    mv "$work/pmix" "$to"
    rm -rf "$work"
}

case ${1-} in
    packages) "$@" ;; # of a tree whose maker has the lock
    tree | wheels | foreign | suite | pmix)
        exec 9>"$cache/matrix/lock-$1-$2"
        flock -w 1800 9 || { echo "another prepare.sh $1 $2 runs" >&2; exit 1; }
        "$@"
        ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
