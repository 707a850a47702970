#!/usr/bin/env bash
# Installs what test/integration takes from PyPI into .cache/venv, once: another MPICH than
# Debian's (with its compiler), and mpi4py. The system's Python, since test hosts see no other.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.cache/venv
wheels=(mpich==5.0.2 mpi4py==4.1.2)
done="$venv/${wheels[*]}"
[ ! -e "$done" ] || exit 0
echo "installing ${wheels[*]} into $venv"
rm -rf "$venv"
/usr/bin/python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check "${wheels[@]}"
touch "$done"
