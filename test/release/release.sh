#!/usr/bin/env bash
# make release VERSION=v0.1.0: all that a release has, in bin/release/VERSION. Two runs of one commit give the same bytes,
# but for signatures; make release-check compares them.
#
#   test/release/release.sh VERSION [DIRECTORY]
#
#   mpiup-VERSION-linux-ARCH.tar.gz       mpiup, mpiup-nvml, mpiup-otel, libmpiup-watch.so, completions, manual pages, licences, changes
#   mpiup-fips-VERSION-linux-ARCH.tar.gz  the same with Go's certified FIPS 140-3 module
#   IMAGE-image-VERSION.oci.tar           the images mpiup, mpiup-openmpi and mpiup-mpich, each for both architectures (image.sh)
#   mpiup-VERSION.tgz                     the Helm chart, and mpiup-kustomize-VERSION.tar.gz the same for kustomize
#   *.spdx.json                           SBOM of each archive with binaries and of each image of Debian (SPDX 2.3, by syft)
#   *.payload.json                        an image's digest, as cosign signs it
#   SHA256SUMS                            of all these
#   provenance.intoto.json                what they were built of, as an in-toto statement (SLSA 1.0)
#
# With RELEASE_KEY=FILE (an EC key on P-256 in PEM) also what cosign verifies with release.pub: SHA256SUMS.sig, *.payload.json.sig, and
# provenance.dsse.json, the statement in an envelope with its signature.
#
# ARCH is amd64 and arm64 (ARCHES="amd64" for one). Times are those of the commit, or SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${1:?which version? as v0.1.0}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || { echo "$version is no version such as v0.1.0" >&2; exit 2; }
if [ -n "$(git status --porcelain)" ]; then
    echo "there are changes that are in no commit: a release is built of one (git status lists them)" >&2
    exit 1
fi
out=${2:-bin/release/$version}
# CGO's C compiler must be named for both, or the helper of the other architecture is left out in silence.
declare -A cc=([amd64]=x86_64-linux-gnu-gcc [arm64]=aarch64-linux-gnu-gcc)
read -ra arches <<<"${ARCHES:-amd64 arm64}"
for a in "${arches[@]}"; do
    command -v "${cc[$a]}" >/dev/null || { echo "${cc[$a]} is missing: apt-get install gcc-${cc[$a]%-gcc} (and libc6-dev-$a-cross)" >&2; exit 1; }
done
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} LC_ALL=C TZ=UTC
export GOFLAGS=-trimpath GOTOOLCHAIN=local
date=$(date -d "@$SOURCE_DATE_EPOCH" +%F)
ldflags="-s -w -X main.version=$version"
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pack() { # pack ARCHIVE DIRECTORY...: below $work
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w -C "$work" -c "${@:2}" | gzip -n9 >"$out/$1"
}

build() { # build ARCH DIRECTORY: mpiup and mpiup-otel, with what is in the environment
    CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -tags grpcnotrace -buildvcs=false -ldflags "$ldflags" -o "$2/mpiup" ./cmd/mpiup
    CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -tags grpcnotrace -buildvcs=false -ldflags "$ldflags" -o "$2/mpiup-otel" ./cmd/mpiup-otel
}

echo "== pages and completions"
GOOS= GOARCH= build "$(go env GOHOSTARCH)" "$work/here"
go run ./test/release -mpiup "$work/here/mpiup" -version "$version" -date "$date" -out "$work/common"
cp LICENSE THIRD_PARTY_NOTICES CHANGELOG.md "$work/common"

for a in "${arches[@]}"; do
    echo "== linux/$a"
    plain=$work/mpiup-$version-linux-$a fips=$work/mpiup-fips-$version-linux-$a
    cp -r "$work/common" "$plain"
    build "$a" "$plain"
    CGO_ENABLED=1 GOOS=linux GOARCH=$a CC=${cc[$a]} go build -buildvcs=false -ldflags '-s -w -extldflags=-Wl,-z,lazy' -o "$plain/mpiup-nvml" ./cmd/mpiup-nvml
    agent/watch/preload/build.sh "${cc[$a]}" "$plain/libmpiup-watch.so"
    cp -r "$plain" "$fips"
    GOFIPS140=certified build "$a" "$fips"
    for dir in "$plain" "$fips"; do
        pack "${dir##*/}.tar.gz" "${dir##*/}"
        test/release/sbom.sh "dir:$dir" "${dir##*/}" "$version" "$out/${dir##*/}.spdx.json"
    done
done

echo "== images"
test/release/image.sh "$version" "$work" "$out"

echo "== chart and kustomize base"
test/release/chart.sh "$version" "$work"
pack "mpiup-${version#v}.tgz" mpiup
pack "mpiup-kustomize-$version.tar.gz" mpiup-kustomize

(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
cat "$out/SHA256SUMS" "$work/digests" >"$work/built"
go run ./test/release -provenance "$work/built" -version "$version" -commit "$(git rev-parse HEAD)" >"$work/provenance" && mv "$work/provenance" "$out/provenance.intoto.json"
signature() { openssl dgst -sha256 -sign "$RELEASE_KEY" | base64 -w0; } # ECDSA over SHA-256, in DER, in base64, as cosign's
if [ -n "${RELEASE_KEY-}" ]; then
    for f in "$out"/{SHA256SUMS,*.payload.json}; do signature <"$f" >"$f.sig"; done
    # DSSE: type and length of the statement are signed with it.
    type=application/vnd.in-toto+json statement=$out/provenance.intoto.json
    signed=$({ printf 'DSSEv1 %d %s %d ' ${#type} $type "$(stat -c %s "$statement")" && cat "$statement"; } | signature)
    printf '{"payloadType":"%s","payload":"%s","signatures":[{"sig":"%s"}]}\n' $type "$(base64 -w0 "$statement")" "$signed" >"$out/provenance.dsse.json"
    openssl pkey -in "$RELEASE_KEY" -pubout -out "$out/release.pub"
else
    echo "not signed: RELEASE_KEY names no key"
fi
ls -l "$out"
