#!/usr/bin/env bash
# The image mpiup of the Containerfile (nothing but mpiup and mpiup-nvml, user 65532) for amd64 and arm64 as one archive of
# an OCI layout, made without a container tool from what make release has built. Equal binaries give equal bytes.
#
#   test/release/image.sh VERSION WORK DIRECTORY     WORK has mpiup-VERSION-linux-ARCH directories
#
# Writes mpiup-image-VERSION.oci.tar into DIRECTORY; mpiup-image-VERSION.payload.json, which is what cosign signs of it; and
# WORK/digests, the image's as sha256sum writes it.
#
# skopeo copy --all oci-archive:ARCHIVE docker://REGISTRY/mpiup:VERSION pushes it; podman load -i reads it. The image is put together in
# a registry of crane's own that listens on 127.0.0.1 until the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$1 work=$2 out=$3
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
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
crane() { "$bin/crane" "$@" >>"$work/image.log" 2>&1 || { tail -5 "$work/image.log" >&2; exit 1; }; }

# platform IMAGE ARCH: an image of one architecture, in the registry.
platform() {
    local name=127.0.0.1:$port/$1:$2
    tar "${fixed[@]}" --mode=0755 -C "$work/mpiup-$version-linux-$2" -c mpiup mpiup-nvml | gzip -n9 >"$work/layer-$2.tar.gz"
    crane append --oci-empty-base -f "$work/layer-$2.tar.gz" -t "$name"
    crane mutate "$name" -t "$name" --set-platform "linux/$2" --user 65532:65532 --entrypoint /mpiup \
        --label "org.opencontainers.image.version=$version" --label "org.opencontainers.image.created=$created" \
        --label org.opencontainers.image.source=https://github.com/mpiup/mpiup --label org.opencontainers.image.licenses=Apache-2.0
}

: >"$work/digests"
for image in mpiup; do
    list=()
    for a in ${ARCHES:-amd64 arm64}; do
        platform $image "$a"
        list+=(-m "127.0.0.1:$port/$image:$a")
    done
    crane index append -t "127.0.0.1:$port/$image:$version" "${list[@]}"
    crane pull --format=oci --annotate-ref "127.0.0.1:$port/$image:$version" "$work/layout"
    sed -i "s|127.0.0.1:$port/||" "$work/layout/index.json" # the name that the annotation has
    tar "${fixed[@]}" --mode=u+rwX,go+rX,go-w -C "$work/layout" -cf "$out/$image-image-$version.oci.tar" .
    rm -r "$work/layout"
    digest=$("$bin/crane" digest "127.0.0.1:$port/$image:$version")
    # containers/image, docs/containers-signature.5.md: the JSON of a simple signature
    printf '{"critical":{"identity":{"docker-reference":"%s"},"image":{"docker-manifest-digest":"%s"},"type":"cosign container image signature"},"optional":null}' \
        "$image" "$digest" >"$out/$image-image-$version.payload.json"
    echo "${digest#sha256:}  $image:$version" >>"$work/digests"
    echo "image $image:$version: $digest"
done
