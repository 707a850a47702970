#!/bin/bash
# What a training job's script looks like.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH=/opt/openmpi/bin:$PATH LD_LIBRARY_PATH=/opt/openmpi/lib:${LD_LIBRARY_PATH:-}
if [ -f /etc/profile.d/modules.sh ]; then
  module load gcc openmpi || true
fi
for d in data out; do mkdir -p "$HERE/$d"; done
case "${1:-run}" in
  run) shift || true ;;
  *) echo "usage: $0 run" >&2; exit 2 ;;
esac
cat > "$HERE/config" <<EOF
./not-a-command $MPIUP_SIZE
EOF
exec numactl --localalloc "$HERE/bin/solver" --input "$HERE/mesh.h5" "$@" 2>&1
