#!/usr/bin/env bash
# Builds what make frameworks tests with and no package holds, once each, outside the tree:
#
#   ~/.cache/mpiup/frameworks/horovod        Horovod with Open MPI and Gloo, over Debian's torch
#   ~/.cache/mpiup/frameworks/horovod-mpich  Horovod with MPICH, over the same
#   ~/.cache/mpiup/frameworks/jax            JAX, from PyPI
#   ~/.cache/mpiup/frameworks/torch          the newest torch, made to load without CUDA, with Accelerate, Lightning and DeepSpeed
#   ~/.cache/mpiup/frameworks/tensorflow     TensorFlow, from PyPI
#   ~/.cache/mpiup/frameworks/kubeflow       Kubeflow's SDK, from PyPI
#
# With arguments, those only. Each is built again when what this script pins for it changes. Needs Debian's python3-torch,
# Open MPI and MPICH (test/setup.sh test), and root for its own packages.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/frameworks

horovod=0.28.1
horovod_with="wheel==0.45.1 setuptools==69.5.1 cloudpickle==3.1.2 packaging==25.0 psutil==7.1.3 PyYAML==6.0.3"
jax=0.10.2
tensorflow=2.21.0
kubeflow=0.5.0
torch=2.15.0
# All that torch and the three need on CPUs. pip would bring CUDA beside it, 3 GB.
torch_with="filelock==4.2.11 typing_extensions==4.16.0 sympy==1.14.0 mpmath==1.3.0 networkx==3.6.1 Jinja2==3.1.6 MarkupSafe==3.0.4 fsspec==2026.9.0
    numpy==2.4.6 packaging==26.3 psutil==7.2.2 PyYAML==6.0.3 tqdm==4.70.1 setuptools==80.9.0 wheel==0.45.1"
accelerate="accelerate==1.15.0 safetensors==0.8.0 huggingface_hub==2.4.0 httpx2==2.16.2 httpcore2==2.16.2 h11==0.16.0 anyio==4.16.0 idna==3.20
    truststore==0.10.5 click==8.5.1 hf-xet==1.8.0"
lightning="lightning==2.6.6 lightning-utilities==0.15.3 torchmetrics==1.9.0"
deepspeed=0.19.8
deepspeed_with="einops==0.8.2 hjson==3.1.0 msgpack==1.2.4 ninja==1.13.2 py-cpuinfo==9.0.0 pydantic==2.14.3 pydantic_core==2.50.4
    annotated-types==0.8.0 typing-inspection==0.4.5"

packages() { # packages PROGRAM-OR-FILE PACKAGE...: installs them where the first is missing
    [ ! -e "$1" ] && ! command -v "$1" >/dev/null || return 0
    [ "$(id -u)" = 0 ] || { echo "missing here: ${*:2} (Debian's names). Install them, or run this as root on Debian." >&2; exit 1; }
    echo "installing ${*:2}"
    local said
    said=$(DEBIAN_FRONTEND=noninteractive test/apt/apt.sh install -y --no-install-recommends "${@:2}") || { tail -5 <<<"$said" >&2; exit 1; }
}

# environment NAME PINS [OPTION]: makes a virtual environment unless NAME has been built with these pins; else it fails.
environment() {
    to=$cache/$1 pins=$2
    [ "$(cat "$to/built-with" 2>/dev/null)" != "$pins" ] || return 1
    echo "building $to"
    rm -rf "$to"
    /usr/bin/python3 -m venv "${@:3}" "$to"
    started=$SECONDS
}

pip() { "$to/bin/python" -m pip --quiet --disable-pip-version-check install --no-cache-dir "$@"; }

built() {
    echo "$pins" >"$to/built-with"
    echo "built $to in $((SECONDS - started)) s"
}

# horovod NAME MPICXX OPTION: without debug information, which is most of its size and half of the time.
horovod() {
    environment "$1" "$horovod $horovod_with" --system-site-packages || return 0
    packages cmake cmake
    packages g++ g++
    packages /usr/include/pybind11/pybind11.h pybind11-dev
    packages /usr/include/torch/csrc/api/include/torch/torch.h libtorch-dev
    # shellcheck disable=SC2086
    pip $horovod_with
    mkdir "$to/mpi"
    ln -s "$(command -v "$2")" "$to/mpi/mpicxx"
    cat >"$to/mpi/cmake-lean" <<'WRAPPER'
#!/bin/sh
[ "$1" = --build ] || set -- -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 "$@"
exec cmake "$@"
WRAPPER
    chmod +x "$to/mpi/cmake-lean"
    (
        export PATH=$to/mpi:$PATH HOROVOD_CMAKE=$to/mpi/cmake-lean MAKEFLAGS=-j2 HOROVOD_WITH_MPI=1 "$3=1"
        export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
        pip --no-build-isolation --no-deps "horovod==$horovod"
    )
    built
}

build_horovod() { horovod horovod mpicxx.openmpi HOROVOD_WITH_GLOO; }

build_horovod-mpich() { horovod horovod-mpich mpicxx.mpich HOROVOD_WITHOUT_GLOO; }

build_jax() {
    environment jax "$jax" || return 0
    pip "jax==$jax"
    built
}

build_tensorflow() {
    environment tensorflow "$tensorflow" || return 0
    pip "tensorflow-cpu==$tensorflow"
    built
}

# For examples/torch-ddp/submit.py.
build_kubeflow() {
    environment kubeflow "$kubeflow" || return 0
    pip "kubeflow==$kubeflow"
    built
}

build_torch() {
    environment torch "$torch $torch_with $accelerate $lightning $deepspeed $deepspeed_with" || return 0
    packages g++ g++
    packages readelf binutils
    # shellcheck disable=SC2086
    pip --no-deps "torch==$torch" $torch_with $accelerate $lightning $deepspeed_with
    "$to/bin/python" test/frameworks/standins.py "$to"/lib/python3*/site-packages
    DS_BUILD_OPS=0 pip --no-deps --no-build-isolation "deepspeed==$deepspeed"
    # Its all-reduce on one host, which DeepSpeed would compile at its first start, for a minute and in each rank's home.
    PATH=$to/bin:$PATH TORCH_EXTENSIONS_DIR=$to/extensions "$to/bin/python" -c \
        'from deepspeed.accelerator import get_accelerator as a; a().create_op_builder("ShareMemCommBuilder").load()' >/dev/null
    built
}

mkdir -p "$cache"
for what in "${@:-}"; do
    [ -n "$what" ] || set -- horovod horovod-mpich jax torch tensorflow kubeflow
done
for what; do
    "build_$what"
done
