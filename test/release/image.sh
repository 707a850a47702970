#!/usr/bin/env bash
# The image mpiup of the Containerfile (nothing but mpiup and mpiup-nvml, user 65532) for amd64 and arm64 as one archive of
# an OCI layout, made without a container tool from what make release has built. Equal binaries give equal bytes.
#
#   test/release/image.sh VERSION WORK ARCHIVE     WORK has mpiup-VERSION-linux-ARCH directories
#
# skopeo copy --all oci-archive:ARCHIVE docker://REGISTRY/mpiup:VERSION pushes it; podman load -i reads it. The image is put together in
# a registry of crane's own that listens on 127.0.0.1 until the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$1 work=$2 archive=$3
tool=github.com/google/go-containerregistry/cmd/crane@v0.22.1
bin=$PWD/.cache/release
mkdir -p "$bin"
if [ "$(cat "$bin/crane.version" 2>/dev/null)" != "$tool" ]; then
    echo "building $tool"
    CGO_ENABLED=0 GOBIN=$bin GOFLAGS=-trimpath go install "$tool"
    echo "$tool" >"$bin/crane.version"
fi
fixed=(--sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner)
"$bin/crane" registry serve --address 127.0.0.1:0 >"$work/registry.log" 2>&1 &
registry=$!
trap 'kill $registry; wait $registry || true' EXIT
until port=$(sed -n 's/.*serving on port //p' "$work/registry.log") && [ -n "$port" ]; do kill -0 $registry; done
name=127.0.0.1:$port/mpiup
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
list=()
for a in ${ARCHES:-amd64 arm64}; do
    tar "${fixed[@]}" --mode=0755 -C "$work/mpiup-$version-linux-$a" -c mpiup mpiup-nvml | gzip -n9 >"$work/layer-$a.tar.gz"
    "$bin/crane" append --oci-empty-base -f "$work/layer-$a.tar.gz" -t "$name:$a" >>"$work/image.log" 2>&1
    "$bin/crane" mutate "$name:$a" -t "$name:$a" --set-platform "linux/$a" --user 65532:65532 --entrypoint /mpiup \
        --label "org.opencontainers.image.version=$version" --label "org.opencontainers.image.created=$created" \
        --label org.opencontainers.image.source=https://github.com/mpiup/mpiup --label org.opencontainers.image.licenses=Apache-2.0 >>"$work/image.log" 2>&1
    list+=(-m "$name:$a")
done
"$bin/crane" index append -t "$name:$version" "${list[@]}" >>"$work/image.log" 2>&1 || { tail -5 "$work/image.log" >&2; exit 1; }
rm -rf "$work/layout"
"$bin/crane" pull --format=oci --annotate-ref "$name:$version" "$work/layout" >>"$work/image.log" 2>&1
sed -i "s|127.0.0.1:$port/||" "$work/layout/index.json" # the name that the annotation has
tar "${fixed[@]}" --mode=u+rwX,go+rX,go-w -C "$work/layout" -cf "$archive" .
echo "image mpiup:$version: $("$bin/crane" digest "$name:$version")"
