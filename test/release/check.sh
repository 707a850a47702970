#!/usr/bin/env bash
# make release-check: makes a release twice, each in a clone of the commit at a path of its own, and compares all bytes.
# Then it looks into one: sums fit, the pages are read by man, the binaries are static and say the version. images.sh has cosign verify
# the signatures, and runs the images.
#
#   test/release/check.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${1:?which version? as v0.1.0}
commit=$(git rev-parse HEAD)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
openssl ecparam -name prime256v1 -genkey -noout -out "$work/key.pem"
mkdir -p .cache/release
for n in one another; do
    git clone -q . "$work/$n"
    git -C "$work/$n" checkout -q --detach "$commit"
    mkdir -p "$work/$n/.cache"
    ln -s "$PWD/.cache/release" "$work/$n/.cache/release" # the tools
    RELEASE_KEY=$work/key.pem "$work/$n/test/release/release.sh" "$version" "$work/out-$n" >"$work/$n.log" 2>&1 || { tail -20 "$work/$n.log" >&2; exit 1; }
done
# A signature of ECDSA has a random number in it.
diff -r --exclude='*.sig' --exclude=provenance.dsse.json "$work/out-one" "$work/out-another"
cd "$work/out-one"
sha256sum --quiet -c SHA256SUMS
for a in amd64 arm64; do
    for name in mpiup mpiup-fips; do
        dir=$name-$version-linux-$a
        tar -xzf "$dir.tar.gz"
        [ "$(find "$dir" -newermt "@$(stat -c %Y "$dir/mpiup")" | wc -l)" = 0 ] || { echo "$dir: files of different times" >&2; exit 1; }
        cmp "$dir/THIRD_PARTY_NOTICES" "$work/one/THIRD_PARTY_NOTICES"
        file=$(readelf -h -l "$dir/mpiup")
        [[ $file != *INTERP* ]] || { echo "$dir/mpiup is not static" >&2; exit 1; }
        man -l "$dir/man/man1/mpiup-run.1" >/dev/null
    done
done
says=$("mpiup-$version-linux-amd64/mpiup" version) fips=$("mpiup-fips-$version-linux-amd64/mpiup" version)
[[ $says == "mpiup $version ("* && $says != *FIPS* && $fips == "mpiup $version ("*"FIPS 140-3, module v"* ]] || { echo "the binaries say $says and $fips" >&2; exit 1; }
ls -l
cd "$work/one"
test/release/images.sh "$version" "$work/out-one"
echo "two releases of $(git -C "$work/one" rev-parse --short HEAD) are equal: ok"
