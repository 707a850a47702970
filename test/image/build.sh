#!/usr/bin/env bash
# make image-check: runs the steps of the Containerfile without a container tool, then tries the
# result: mpiup must run in a root directory that holds nothing but itself and its helpers, as any user.
#
# Stages of Debian are trees made by debootstrap, the build stage with this machine's Go toolchain in
# it, as the golang image has one; `FROM scratch` is an empty directory. Trees are kept in
# $XDG_CACHE_HOME/mpiup/image. Needs root, Debian's packages and the Go module proxy.
#
# Stages of UBI are not run: what they copy must be there, their shell must parse, and but for the
# packages they must take the steps that Debian's stages of the same MPI take.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD
[ "$(id -u)" = 0 ] || { echo "chroot needs root" >&2; exit 1; }
test/setup.sh go image

cache=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/image
suite=bookworm
base=$cache/$suite
work=$cache/work
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -w 600 9 || { echo "another image-check runs" >&2; exit 1; }
# What an earlier run, killed, left mounted would be removed with the tree.
if findmnt -rno TARGET | grep -qF "$work"; then
    findmnt -rno TARGET | grep -F "$work" | sort -r | xargs -r umount --lazy
fi
rm -rf --one-file-system "$work"
mkdir -p "$work"

cleanup() {
    findmnt -rno TARGET | grep -F "$work" | sort -r | xargs -r umount --lazy
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT

if [ ! -e "$base.done" ]; then
    echo "making a tree of Debian $suite in $base"
    rm -rf --one-file-system "$base"
    mirror=$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" { print $2; exit }' \
        /etc/apt/sources.list.d/* /etc/apt/sources.list 2>/dev/null || true)
    if ! debootstrap --variant=minbase --include=make,ca-certificates "$suite" "$base" \
        "${mirror:-http://deb.debian.org/debian}" >"$cache/debootstrap.log" 2>&1; then
        tail -20 "$cache/debootstrap.log" >&2
        exit 1
    fi
    : >"$base.done"
fi

# stage NAME IMAGE: a new tree. The toolchain, certificates, resolver and way to packages are this machine's.
stage() {
    root=$work/$1
    mkdir -p "$root"
    envs=() user=0:0 dir=/
    [ "$2" != scratch ] || return 0
    case $2 in */golang:*-$suite | */debian:$suite*) ;; *) echo "no stand-in for the image $2" >&2; exit 1 ;; esac
    cp -a --reflink=auto "$base/." "$root"
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    cp -aL /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    cp -a /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d" 2>/dev/null || true
    envs=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root)
    case $2 in */golang:*) ;; *) return 0 ;; esac
    mkdir -p "$root/usr/local/go"
    mount --bind -o ro "$(go env GOROOT)" "$root/usr/local/go"
    # cgo needs what golang's image has; the program is linked with this system's glibc.
    chroot "$root" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev' >"$cache/gcc.log" 2>&1 ||
        { tail -20 "$cache/gcc.log" >&2; exit 1; }
    envs=(PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        GOPATH=/go GOTOOLCHAIN=local "GOPROXY=$(go env GOPROXY)" HOME=/root)
}

copy() { # copy [--from=STAGE] SOURCE... TARGET
    local from=$source to f files
    case $1 in --from=*) from=$work/${1#--from=}; shift ;; esac
    to=${*: -1}
    case $to in /*) to=$root$to ;; *) to=$root$dir/$to ;; esac
    mkdir -p "$(dirname "$to")"
    if [ "$from" = "$source" ] && [ "$1" = . ]; then # what git knows: the rest is ignored
        mapfile -d '' files < <(git ls-files -coz --exclude-standard | while IFS= read -rd '' f; do
            [ ! -e "$f" ] || printf '%s\0' "$f"
        done)
        printf '%s\0' "${files[@]}" | tar -c --null -T - | tar -x --no-same-owner -C "$to"
        return
    fi
    for f in "${@:1:$#-1}"; do cp -a "$from/${f#/}" "$to"; done
}

# alike WORD REST: a step of a stage of UBI. Debian's stage of that MPI has taken it before.
alike() {
    case "$1 $2" in
        "ARG UBI" | 'RUN case "$UBI" in *@sha256:*) ;;'*) sh -nc "$2"; return 0 ;; # which base it is
        "COPY --from=build "*)
            set -- "$1" "$2" $2
            for f in "${@:4:$#-4}"; do [ -e "$work/build/${f#/}" ] || { echo "$name: there is no $f" >&2; exit 1; }; done ;;
        "ENV PATH="*":/usr/lib64/${name%-ubi}/bin" | "RUN dnf install -y "*" ${name%-ubi} && "*) sh -nc "$2"; return 0 ;;
    esac
    [[ ${steps[${name%-ubi}]} == *"
$1 $2
"* ]] || { echo "$name: the stage ${name%-ubi} has no step $1 $2" >&2; exit 1; }
    steps[$name]+="$1 $2
"
}

entry=
declare -A users steps
while read -r word rest; do
    echo "STEP $word $rest"
    if [ "$word" = ARG ] && [ -z "${name:-}" ]; then # of images, before the first of them
        declare "arg_${rest%%=*}=${rest#*=}"
        continue
    fi
    if [ "$word" != FROM ]; then
        case $name in *-ubi) alike "$word" "$rest"; continue ;; esac
        steps[$name]+="
$word $rest
"
    fi
    case $word in
        FROM)
            name=${rest##* AS }
            [ "$name" != "$rest" ] || name=final
            image=${rest%% *}
            case $image in '$'*) image=arg_${image#'$'} image=${!image} ;; esac
            image=${image%@sha256:*}
            case $name:$image in
                *-ubi:*/ubi9/*) steps[$name]= ;;
                *) stage "$name" "$image" ;;
            esac
            ;;
        ARG) envs+=("${rest%%=*}=image-check") ;;
        ENV) envs+=("$rest") ;;
        WORKDIR) dir=$rest; mkdir -p "$root$dir" ;;
        COPY) # shellcheck disable=SC2086
            copy $rest ;;
        RUN) env -i "${envs[@]}" chroot "$root" /bin/sh -ec "cd $dir; $rest" ;;
        USER) user=$rest; users[$name]=$rest ;;
        LABEL) ;; # test/release compares them with THIRD_PARTY_NOTICES
        ENTRYPOINT) entry=$(tr -d '[]" ' <<<"$rest") ;;
        *) echo "an instruction that image-check does not know: $word" >&2; exit 1 ;;
    esac
done < <(grep -Ev '^ *(#|$)' Containerfile)

for name in openmpi-ubi mpich-ubi; do # five steps of Debian's, the label and the user
    [ "$(grep -c . <<<"${steps[$name]-}")" = 7 ] || { echo "$name lacks steps: ${steps[$name]-}" >&2; exit 1; }
done

echo "== the image"
find "$root" -mindepth 1 -printf '%M %s %P\n'
[ "$(find "$root" -mindepth 1 -printf '%P\n' | sort | xargs)" = "libmpiup-watch.so licenses licenses/LICENSE licenses/THIRD_PARTY_NOTICES mpiup mpiup-nvml mpiup-otel" ] || { echo "other files in the image than mpiup, its helpers and the licences" >&2; exit 1; }

in_image() { chroot --userspec="$user" "$root" "$entry" "$@"; }
echo "== it runs as $user in a root directory with nothing else"
in_image version
in_image keygen | head -1
in_image version | grep -q image-check || { echo "the build argument VERSION did not reach the binary" >&2; exit 1; }

echo "== install, as an init container does, and a run from there"
mkdir -m 777 "$root/opt"
mkdir -m 1777 "$root/tmp"
mkdir "$root/proc" "$root/dev" # which every container has
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
in_image install /opt
in_image install --names ssh,mpirun /opt
cmp "$root/mpiup-nvml" "$root/opt/mpiup-nvml"
cmp "$root/mpiup-otel" "$root/opt/mpiup-otel"
cmp "$root/libmpiup-watch.so" "$root/opt/libmpiup-watch.so"
[ "$(chroot --userspec="$user" "$root" /opt/ssh -V 2>&1 | cut -c1-8)" = OpenSSH_ ] || { echo "the link ssh is not mpiup" >&2; exit 1; }
got=$(in_image run -n 2 /opt/mpiup version | grep -c image-check)
[ "$got" = 2 ] || { echo "2 ranks in the image gave $got lines" >&2; exit 1; }
# as IMAGE COMMAND...: in one of the images with names, as its user.
as() {
    local image=$1
    shift
    (cd / && exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/mpiuser \
        chroot --userspec="${users[$image]}" "$work/$image" "$@")
}
says() { # says WHAT WANTED GOT
    [[ $3 == *"$2"* ]] || { printf '%s says\n%s\nand not %s\n' "$1" "$3" "$2" >&2; exit 1; }
    echo "$1: ok"
}
for image in openmpi mpich; do
    echo "== the image $image as ${users[$image]}"
    says "$image: whoami" 1000 "$(as $image id -u)"
    for name in mpirun mpiexec; do
        says "$image: $name" "mpiup" "$(as $image $name --version)"
    done
    says "$image: mpiup-nvml" "libnvidia-ml" "$(as $image /usr/local/bin/mpiup-nvml 2>&1)"
    says "$image: /usr/bin/ssh" "(mpiup" "$(as $image /usr/bin/ssh -V 2>&1)"
    says "$image: /usr/sbin/sshd" "(mpiup" "$(as $image /usr/sbin/sshd -V 2>&1)"
    says "$image: two ranks" "0 of 2
1 of 2" "$(as $image mpirun -n 2 sh -c 'sleep $MPIUP_RANK; echo $MPIUP_RANK of $MPIUP_SIZE')"
    # What the MPI Operator starts on a worker, with its key where the operator mounts it.
    as $image mpiup keygen >"$work/key"
    install -D -m 444 "$work/key" "$work/$image/etc/mpiup/key"
    as $image /usr/sbin/sshd -De -f /home/mpiuser/.sshd_config >"$work/$image.log" 2>&1 &
    agent=$!
    for _ in $(seq 600); do
        if as $image mpiup agent --check >/dev/null 2>&1; then break; fi
        sleep 0.1
    done
    (exec 3<>/dev/tcp/127.0.0.1/2222) || { echo "$image: sshd does not listen on port 2222, which MPI Operator's pi-mpich.yaml probes" >&2; exit 1; }
    says "$image: ssh to its own sshd" "hello of 1000" "$(as $image ssh 127.0.0.1 'echo hello of $(id -u)' 2>&1)"
    says "$image: mpirun over it" "rank 1" "$(as $image mpirun -n 2 -host 127.0.0.1:2 sh -c 'echo rank $MPIUP_RANK' 2>&1)"
    case $image in openmpi) real="Open MPI" ;; *) real="HYDRA build details" ;; esac
    says "$image: its own launcher" "$real" "$(as $image env MPIUP_MPI=native mpirun --version 2>&1)"
    kill "$agent" # it ends with 0, and its guard a moment after it
    wait "$agent" || true
done
echo "ok"
