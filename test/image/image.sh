#!/usr/bin/env bash
# make image: builds the images mpiup:VERSION, mpiup-openmpi:VERSION and mpiup-mpich:VERSION with podman
# or docker; TARGETS names others of the Containerfile's, and UBI the base of those. VERSION as in the Makefile.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
tool=$(command -v podman || command -v docker) || {
    echo "neither podman nor docker is here; make image-check runs the same steps without them" >&2
    exit 1
}
for target in ${TARGETS:-mpiup openmpi mpich}; do
    image=mpiup
    [ "$target" = mpiup ] || image=mpiup-$target
    "$tool" build -f Containerfile --target "$target" --build-arg "VERSION=$version" ${UBI:+--build-arg "UBI=$UBI"} -t "$image:$version" .
done
