#!/usr/bin/env bash
# The images of the Containerfile for amd64 and arm64, each as one archive of an OCI layout, made without a container tool from what
# make release has built. Equal binaries and an equal debian.lock give equal bytes.
#
#   test/release/image.sh VERSION WORK DIRECTORY     WORK has here/mpiup and mpiup-VERSION-linux-ARCH directories
#
#   mpiup          nothing but mpiup, mpiup-nvml, mpiup-otel and libmpiup-watch.so, user 65532
#   mpiup-openmpi  Debian with Open MPI (debian.sh) and mpiup by its names, user 1000
#   mpiup-mpich    the same with MPICH
#
# Writes IMAGE-image-VERSION.oci.tar into DIRECTORY; IMAGE-image-VERSION.payload.json, which is what cosign signs of it; of Debian's an
# SBOM for each architecture (mpiup's are those of its binaries); and WORK/digests, a line for each image as of sha256sum.
#
# skopeo copy --all oci-archive:ARCHIVE docker://REGISTRY/IMAGE:VERSION pushes one; podman load -i reads it. The images are put together
# in a registry of crane's own that listens on 127.0.0.1 until the end.
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
started=($registry)
trap 'kill "${started[@]}" 2>/dev/null || true; wait || true' EXIT
until port=$(sed -n 's/.*serving on port //p' "$work/registry.log") && [ -n "$port" ]; do kill -0 $registry; done
licences=$(sed -n 's/^Licences: //p' THIRD_PARTY_NOTICES)
[ -n "$licences" ] || { echo "THIRD_PARTY_NOTICES does not begin with the licences" >&2; exit 1; }
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
crane() { "$bin/crane" "$@" >>"$work/image.log" 2>&1 || { tail -5 "$work/image.log" >&2; exit 1; }; }

# names ARCH: the layer of mpiup above Debian's, as the Containerfile lays it down. Of directories only /licenses: the others are Debian's.
names() {
    local root=$work/names-$1 binaries=$work/mpiup-$version-linux-$1
    mkdir -p "$root"/usr/{local/bin,sbin,bin} "$root/licenses"
    cp LICENSE THIRD_PARTY_NOTICES "$root/licenses/"
    cp "$work/here/mpiup" "$root/usr/local/bin/"
    "$root/usr/local/bin/mpiup" install --names all "$root/usr/local/bin" >/dev/null
    cp "$binaries/mpiup" "$binaries/mpiup-nvml" "$binaries/mpiup-otel" "$binaries/libmpiup-watch.so" "$root/usr/local/bin/"
    ln -s ../local/bin/mpiup "$root/usr/sbin/sshd"
    ln -s ../local/bin/mpiup "$root/usr/bin/ssh"
    (cd "$root" && find usr licenses ! \( -type d -path 'usr*' \) -print0 | LC_ALL=C sort -z) |
        tar "${fixed[@]}" --mode=0755 --null --no-recursion -C "$root" -c -T - | gzip -n9 >"$work/names-$1.tar.gz"
}

# platform IMAGE ARCH: an image of one architecture, in the registry.
platform() {
    local name=127.0.0.1:$port/$1:$2 layers set
    if [ "$1" = mpiup ]; then
        tar "${fixed[@]}" --mode=0755 -C "$work/mpiup-$version-linux-$2" -c mpiup mpiup-nvml mpiup-otel libmpiup-watch.so -C "$work/names-$2" licenses | gzip -n9 >"$work/mpiup-$2.tar.gz"
        layers=(-f "$work/mpiup-$2.tar.gz")
        set=(--user 65532:0 --entrypoint /mpiup)
    else
        layers=(-f "$work/$1-$2.tar.gz" -f "$work/names-$2.tar.gz")
        set=(--user 1000:0 --cmd bash --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
    fi
    crane append --oci-empty-base "${layers[@]}" -t "$name"
    crane mutate "$name" -t "$name" --set-platform "linux/$2" "${set[@]}" \
        --label "org.opencontainers.image.version=$version" --label "org.opencontainers.image.created=$created" \
        --label org.opencontainers.image.source=https://github.com/mpiup/mpiup --label "org.opencontainers.image.licenses=$licences"
    [ "$1" != mpiup ] || return 0
    crane pull --format=oci "$name" "$work/$1-$2.layout"
    test/release/sbom.sh "oci-dir:$work/$1-$2.layout" "$1-linux-$2" "$version" "$out/$1-image-$version-linux-$2.spdx.json"
    rm -r "$work/$1-$2.layout" "$work/$1-$2.tar.gz"
}

making=()
for mpi in openmpi mpich; do
    for a in ${ARCHES:-amd64 arm64}; do
        test/release/debian.sh $mpi "$a" "$work/mpiup-$mpi-$a.tar.gz" &
        making+=($!)
    done
done
started+=("${making[@]}")
for a in ${ARCHES:-amd64 arm64}; do names "$a"; done
for pid in "${making[@]}"; do wait "$pid"; done

: >"$work/digests"
for image in mpiup mpiup-openmpi mpiup-mpich; do
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
