#!/usr/bin/env bash
# start.sh: what make cluster does. Debian's packages and layers come while Kubernetes is built.
set -euo pipefail
cd "$(dirname "$0")"
trap 'trap - INT TERM; kill 0' INT TERM
layers() { ./debs.sh && ./images.sh layers; }
layers & layers=$!
./build.sh
../release/chart.sh tools # for TestChart
wait $layers
./images.sh
./up.sh
