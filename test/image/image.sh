#!/usr/bin/env bash
# make image: builds the image mpiup:VERSION with podman or docker. VERSION as in the Makefile.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
tool=$(command -v podman || command -v docker) || {
    echo "neither podman nor docker is here; make image-check runs the same steps without them" >&2
    exit 1
}
"$tool" build -f Containerfile --build-arg "VERSION=$version" -t "mpiup:$version" .
