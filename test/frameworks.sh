#!/usr/bin/env bash
# Builds what make frameworks tests with and no package holds, once each, outside the tree:
#
#   ~/.cache/mpiup/frameworks/horovod   Horovod with Open MPI and Gloo, over Debian's torch (five minutes on two cores)
#   ~/.cache/mpiup/frameworks/jax       JAX, from PyPI
#
# With an argument, that one only. Needs Debian's python3-torch and Open MPI (test/setup.sh test), and root for its own packages.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/frameworks
horovod=0.28.1
jax=0.10.2
mkdir -p "$cache"

packages() { # packages PROGRAM-OR-FILE PACKAGE...: installs them where the first is missing
    [ ! -e "$1" ] && ! command -v "$1" >/dev/null || return 0
    [ "$(id -u)" = 0 ] || { echo "missing here: ${*:2} (Debian's names). Install them, or run this as root on Debian." >&2; exit 1; }
    echo "installing ${*:2}"
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${@:2}" >/dev/null
}

pip() { "$1/bin/python" -m pip --quiet --disable-pip-version-check "${@:2}"; }

build_horovod() {
    local to=$cache/horovod
    [ ! -e "$to/$horovod" ] || return 0
    packages cmake cmake
    packages g++ g++
    packages /usr/include/pybind11/pybind11.h pybind11-dev
    packages /usr/include/torch/csrc/api/include/torch/torch.h libtorch-dev
    echo "building Horovod $horovod into $to, which takes minutes"
    rm -rf "$to"
    /usr/bin/python3 -m venv --system-site-packages "$to"
    pip "$to" install wheel==0.45.1 'setuptools<70' cloudpickle==3.1.2 packaging==25.0 psutil==7.1.3 PyYAML==6.0.3
    HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 \
        MAKEFLAGS=-j2 pip "$to" install --no-build-isolation --no-deps "horovod==$horovod"
    touch "$to/$horovod"
}

build_jax() {
    local to=$cache/jax
    [ ! -e "$to/$jax" ] || return 0
    echo "installing JAX $jax into $to"
    rm -rf "$to"
    /usr/bin/python3 -m venv "$to"
    pip "$to" install "jax==$jax"
    touch "$to/$jax"
}

for what in ${1:-horovod jax}; do
    "build_$what"
done
