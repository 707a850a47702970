#!/usr/bin/env bash
# make image-examples: runs the steps of the Dockerfiles of examples/ that train in trees of Debian's, where no container tool
# is, and then the training itself in the tree, as the image's user: two ranks on one host.
#
#   test/image/examples.sh [EXAMPLE...]
#
# Needs root, Debian's packages, PyPI, the tree that make image-check makes, and bin/mpiup. Minutes each; torch is 3 GB.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "chroot needs root" >&2; exit 1; }
base=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/image/bookworm
[ -e "$base.done" ] || { echo "there is no tree of Debian's yet: run make image-check" >&2; exit 1; }
for f in bin/mpiup bin/mpiup-nvml bin/libmpiup-watch.so; do [ -e "$f" ] || { echo "$f is missing: run make build" >&2; exit 1; }; done
work=$base-examples
exec 9>"$base.lock"
flock -n 9 || { echo "another test/image/examples.sh runs" >&2; exit 1; }

cleanup() {
    { findmnt -rno TARGET | grep -F "$work/" || true; } | sort -r | xargs -r umount --lazy
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
cleanup

stage() { # stage NAME IMAGE
    case $2 in */debian:bookworm-slim@sha256:*) ;; *) echo "no stand-in for the image $2" >&2; exit 1 ;; esac
    root=$work/$1
    mkdir -p "$root"
    cp -a --reflink=auto "$base/." "$root"
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    cp -aL /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    cp -a /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d" 2>/dev/null || true
    cp -a /etc/pip.conf "$root/etc/pip.conf" 2>/dev/null || true
    envs=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root) user=0:0
    for v in PIP_INDEX_URL PIP_CERT; do [ -z "${!v-}" ] || envs+=("$v=${!v}"); done
}

copy() { # copy EXAMPLE [--from=STAGE] SOURCE... TARGET
    local from=examples/$1 f
    shift
    case $1 in
        --from=registry.example.com/mpiup:1) from=bin; shift ;;
        --from=*) from=$work/${1#--from=}; shift ;;
    esac
    for f in "${@:1:$#-1}"; do cp -a "$from/${f#/}" "$root${*: -1}"; done
}

build() { # build EXAMPLE
    local word rest name
    while read -r word rest; do
        echo "STEP $word $rest"
        case $word in
            FROM) name=${rest##* AS }; [ "$name" != "$rest" ] || name=final; stage "$name" "${rest%% *}" ;;
            ENV) envs+=("$rest") ;;
            COPY) # shellcheck disable=SC2086
                copy "$1" $rest ;;
            RUN) env -i "${envs[@]}" chroot "$root" /bin/sh -ec "$rest" >"$work/log" 2>&1 || { tail -30 "$work/log" >&2; exit 1; } ;;
            USER) user=$rest ;;
            *) echo "an instruction that this script does not know: $word" >&2; exit 1 ;;
        esac
    done < <(grep -Ev '^ *(#|$)' "examples/$1/Dockerfile")
}

examples=("$@")
[ $# -gt 0 ] || mapfile -t examples < <(cd examples && dirname */train.py)
for example in "${examples[@]}"; do
    echo "== $example"
    started=$SECONDS
    mkdir -p "$work"
    build "$example"
    echo "127.0.0.1 localhost $(cat /proc/sys/kernel/hostname)" >"$root/etc/hosts" # as container runtimes write it
    # What the MPIJob starts, on one host.
    got=$(cd / && env -i "${envs[@]}" HOME=/home/mpiuser chroot --userspec="$user" "$root" mpiup run -n 2 python3 /opt/train.py 2>&1) || { echo "$got" >&2; exit 1; }
    [ "$(grep -c "^rank [01] of 2: loss .*weights equal rank 0's: True$" <<<"$got")" = 2 ] || { echo "two ranks said: $got" >&2; exit 1; }
    echo "$got"
    echo "$example: $(du -sh --one-file-system "$root" | cut -f1) as user $user in $((SECONDS - started)) s: ok"
    cleanup
done
