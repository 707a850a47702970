#!/usr/bin/env bash
# Makes the images that the cluster runs, as one archive, $CLUSTER/images.tar: Kubernetes' pause, CoreDNS, the operators,
# mpiup (scratch), Debian with MPICH or Open MPI and mpiup as the Containerfile lays it down, MPICH without mpiup, and
# both libraries with OpenSSH and their own launchers, with which mpiup is compared.
#
#	base ── debootstrap's tree      mpich, openmpi, ssh ── what apt-get adds to it      programs-* ── MPI programs
#	names ── mpiup, by its names    beside ── mpiup alone, by its own name
#
# With OSU=FOLDER, the source of OSU's micro-benchmarks 5.3, their osu_latency and osu_bw are among the programs. With
# FRAMEWORKS=1 there are images of the examples that train, from what make frameworks has built, and of Intel MPI, from what
# test/wheels.sh intel has brought (4 GB more).
#
# With the argument layers it makes Debian's alone, which need nothing of build.sh. They are kept in $CLUSTER/layers; those
# of programs and of mpiup are made anew each time, which takes seconds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/versions.sh"
project=$(cd "$here/../.." && pwd)
mkdir -p "$CLUSTER/layers" && cd "$CLUSTER"

leave() {
    local m
    for m in tree/proc tree/dev tree; do if mountpoint -q "$m"; then umount -l "$m"; fi; done
}
trap leave EXIT
layer() { tar -C "$1" --numeric-owner --sort=name --mtime=@0 -cf "layers/$2.new" . && mv "layers/$2.new" "layers/$2.tar"; }

if [ ! -e layers/base.tar ]; then
    rm -rf --one-file-system base
    # shellcheck disable=SC2016 # apt's variable
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | sort -u | head -n 1)
    debootstrap --variant=minbase --include=ca-certificates bookworm base "$mirror" >debootstrap.log 2>&1 ||
        { tail -20 debootstrap.log >&2; exit 1; }
    rm -rf base/var/cache/apt/archives/*.deb base/var/lib/apt/lists/*
    layer base base
fi

# added NAME PACKAGE...: what apt-get makes of base
added() {
    local name=$1 f; shift
    [ ! -e "layers/$name.tar" ] || return 0
    rm -rf --one-file-system "$name.added" "$name.work"
    mkdir -p tree "$name.added" "$name.work"
    mount -t overlay overlay -o "lowerdir=base,upperdir=$name.added,workdir=$name.work" tree
    mount -t proc proc tree/proc
    mount --bind /dev tree/dev
    cp -L /etc/resolv.conf tree/etc/resolv.conf
    chroot tree sh -ec "apt-get update; DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $*
        rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb; useradd --create-home --uid 1000 mpiuser" >"$name.log" 2>&1 ||
        { tail -20 "$name.log" >&2; exit 1; }
    if declare -F "set_up_$name" >/dev/null; then "set_up_$name"; fi
    : >tree/etc/resolv.conf
    leave
    # What an overlay has removed is a device there, and a file of another name in an image.
    find "$name.added" -type c | while read -r f; do rm "$f" && touch "${f%/*}/.wh.${f##*/}"; done
    layer "$name.added" "$name"
    rm -rf --one-file-system "$name.added" "$name.work"
}
# As in the images of MPI Operator, for a user who is not root.
set_up_ssh() {
    printf '    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n    Port 2222\n' >>tree/etc/ssh/ssh_config
}
added mpich mpich
added openmpi openmpi-bin
added ssh openssh-server openssh-client
[ "${1:-}" != layers ] || exit 0 # while build.sh builds

frameworks=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/frameworks
set_up_jax() { cp -a "$frameworks/jax" tree/opt/venv; }
set_up_horovod() { cp -a "$frameworks/horovod" tree/opt/venv; }
set_up_torch() { # with what examples/deepspeed/Dockerfile has DeepSpeed compile
    cp -a "$frameworks/torch" tree/opt/venv
    rm -rf tree/opt/venv/extensions
    chroot tree env PATH="/opt/venv/bin:$PATH" HOME=/root TORCH_EXTENSIONS_DIR=/opt/extensions python3 -c \
        'from deepspeed.accelerator import get_accelerator as a; a().create_op_builder("ShareMemCommBuilder").load()' >/dev/null
    chown -R 1000:0 tree/opt/extensions
}
set_up_intel() { cp -a "$project/.cache/impi" tree/opt/intel; }
# trains NAME PACKAGE...: a layer with a virtual environment, made anew when make frameworks has made that anew
trains() {
    [ -e "$frameworks/$1/built-with" ] || { echo "no $frameworks/$1: run make frameworks first" >&2; exit 1; }
    [ "layers/$1.tar" -nt "$frameworks/$1/built-with" ] || rm -f "layers/$1.tar"
    added "$@"
}
if [ -n "${FRAMEWORKS:-}" ]; then
    trains torch g++ python3-dev
    trains jax python3
    trains horovod openmpi-bin python3-torch
    "$project/test/wheels.sh" intel
    [ layers/intel.tar -nt "$project/.cache/impi/lib" ] || rm -f layers/intel.tar
    added intel
fi

# measured BENCHMARK SIZE: OSU's, as their configure sets it, up to the one size that TestSpeed looks at
measured() {
    rm -rf osu && cp -r "$OSU/mpi/pt2pt" osu
    sed -i "s/^#define MAX_MSG_SIZE .*/#define MAX_MSG_SIZE $2/" osu/osu_pt2pt.h
    "mpicc.$mpi" -O2 -w -Iosu -DFIELD_WIDTH=20 -DFLOAT_PRECISION=2 -DPACKAGE_VERSION='"5.3"' -o "$d/opt/$1" "osu/$1.c" osu/osu_pt2pt.c
}

# MPI Operator's own pi, and its source's only one, is at the places that its manifests and ours name.
programs() { # programs LIBRARY FLAG...
    local mpi=$1 d=programs-$1; shift
    rm -rf "$d" && mkdir -p "$d/opt" "$d/home/mpiuser"
    "mpicxx.$mpi" -O2 -rdynamic "$@" -o "$d/opt/pi" "$(source_of operators github.com/kubeflow/mpi-operator)/examples/v2beta1/pi/pi.cc"
    "mpicc.$mpi" -O2 -rdynamic -o "$d/opt/hello" "$project/examples/hello/hello.c"
    "mpicc.$mpi" -O2 -rdynamic -o "$d/opt/checkpoint" "$project/examples/checkpoint/checkpoint.c" -lm
    local p
    for p in steady phases; do "mpicc.$mpi" -O2 -rdynamic -o "$d/opt/$p" "$project/test/mpi/$p.c"; done
    if [ -n "${OSU:-}" ]; then
        measured osu_latency '(1<<3)' && measured osu_bw '(1<<20)'
    fi
    cp "$d/opt/pi" "$d/opt/serve"
    cp "$d/opt/pi" "$d/home/mpiuser/pi"
    # As in MPI Operator's images; its pi-mpich.yaml probes that port.
    printf 'PidFile /home/mpiuser/sshd.pid\nHostKey /home/mpiuser/.ssh/id_rsa\nStrictModes no\nPort 2222\n' >"$d/home/mpiuser/.sshd_config"
    chown -R 1000:0 "$d/home/mpiuser"
    layer "$d" "$d"
    rm -rf "$d"
}
# Debian 12's MPICH may wait for good in MPI_Finalize, see examples/hello/hello.c.
echo 'extern "C" void *ucp_disconnect_nb(void *endpoint) { (void)endpoint; return 0; }' >disconnect.cc
programs mpich disconnect.cc
programs openmpi

program() { # program LAYER PATH FILE: a layer of one program
    rm -rf one && mkdir -p "one/$(dirname "$2")" && cp "$3" "one/$2" && layer one "$1" && rm -rf one
}
if [ ! -e pause ]; then
    gcc -Os -static -s -DVERSION=3.10 -o pause "$(source_of kubernetes k8s.io/kubernetes)/build/pause/linux/pause.c"
fi
program pause pause pause
program coredns coredns bin/coredns
program mpi-operator opt/mpi-operator bin/mpi-operator
program jobset manager bin/jobset
program trainer manager bin/trainer-controller-manager
program lws manager bin/cmd
program scratch mpiup "$project/bin/mpiup"
program beside usr/local/bin/mpiup "$project/bin/mpiup"
program in-place usr/local/bin/in-place-restart-agent bin/in-place-restart-agent
mkdir -p one/usr/local/bin one/usr/sbin one/usr/bin
cp "$project/bin/mpiup" one/usr/local/bin/
"$project/bin/mpiup" install --names all one/usr/local/bin >/dev/null
ln -s ../local/bin/mpiup one/usr/sbin/sshd && ln -s ../local/bin/mpiup one/usr/bin/ssh
layer one names && rm -rf one

# training NAME...: a layer of each example's script, and one of pi as Intel MPI has it, which has no headers: MPICH's have its interface
training() {
    local name
    for name; do program "train-$name" opt/train.py "$project/examples/$name/train.py"; done
    mpicxx.mpich -O2 -DMPICH_SKIP_MPICXX -c -o pi.o "$(source_of operators github.com/kubeflow/mpi-operator)/examples/v2beta1/pi/pi.cc"
    g++ -o pi-intel pi.o "$project/.cache/impi/lib/libmpi.so.12"
    program programs-intel opt/pi pi-intel
}
[ -z "${FRAMEWORKS:-}" ] || training torch-ddp lightning deepspeed jax horovod-pytorch

example=registry.example.com
image() { # image NAMES USER ENTRYPOINT LAYER..., with the variables of the array env
    local fields=("${@:1:3}" "${env[*]:-}") l
    for l in "${@:4}"; do fields+=("layers/$l.tar"); done
    (IFS=$'\t'; echo "${fields[*]}")
}
env=()
{
    image registry.k8s.io/pause:3.10 65535:65535 /pause pause
    image "registry.k8s.io/coredns/coredns:v$COREDNS" 0:0 /coredns coredns
    image "mpioperator/mpi-operator:$MPI_OPERATOR" 0:0 /opt/mpi-operator mpi-operator
    image "registry.k8s.io/jobset/jobset:v$JOBSET" 65532:65532 /manager jobset
    image "ghcr.io/kubeflow/trainer/trainer-controller-manager:v$TRAINER" 65532:65532 /manager trainer
    image "registry.k8s.io/lws/lws:v$LWS" 65532:65532 /manager lws
    image $example/mpiup:1 65532:65532 /mpiup scratch
    image $example/pi:1,$example/pi-drop-in:1,$example/serve:1,mpioperator/mpi-pi:openmpi 1000:0 - base openmpi programs-openmpi names
    image $example/pi-in-place:1 1000:0 - base openmpi programs-openmpi beside in-place
    image $example/pi-mpich:1,mpioperator/mpi-pi:mpich 1000:0 - base mpich programs-mpich names
    image $example/users-own-image:7 0:0 - base mpich programs-mpich
    image $example/both-openmpi:1 1000:0 - base openmpi ssh programs-openmpi beside
    image $example/both-mpich:1 1000:0 - base mpich ssh programs-mpich beside
    if [ -n "${FRAMEWORKS:-}" ]; then
        env=(PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TORCH_EXTENSIONS_DIR=/opt/extensions)
        for name in torch-ddp lightning deepspeed; do image "$example/$name:1" 1000:0 - base torch "train-$name" beside; done
        image $example/jax:1 1000:0 - base jax train-jax beside
        image $example/horovod-pytorch:1 1000:0 - base horovod train-horovod-pytorch beside
        env=(LD_LIBRARY_PATH=/opt/intel/lib FI_PROVIDER_PATH=/opt/intel/lib I_MPI_ROOT=/opt/intel)
        image $example/pi-intel:1 1000:0 - base intel programs-intel beside
    fi
} | python3 "$here/pack.py" images.tar
sha256sum <"$project/bin/mpiup" >images.mpiup
