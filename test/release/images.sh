#!/usr/bin/env bash
# What make release-check does with the image of a release: pushes it to a registry of crane's on 127.0.0.1, has cosign verify
# signature and provenance there, and runs it by podman, which pulls it by its digest: two ranks, without a network or a capability.
#
#   test/release/images.sh VERSION DIRECTORY      root
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$1 out=$2
test/setup.sh images
bin=$PWD/.cache/release
tool=github.com/sigstore/cosign/v2/cmd/cosign@v2.6.5
if [ "$(cat "$bin/cosign.version" 2>/dev/null)" != "$tool" ]; then
    echo "building $tool (minutes)"
    CGO_ENABLED=0 GOBIN=$bin GOFLAGS=-trimpath go install "$tool"
    echo "$tool" >"$bin/cosign.version"
fi
work=$(mktemp -d)
# Nothing of this machine's own podman is used or left.
podman=(podman --root "$work/storage" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs --runtime runc --events-backend none)
registry=
leave() {
    "${podman[@]}" rm --all --force --time 0 >/dev/null 2>&1 || true
    [ -z "$registry" ] || kill "$registry"
    findmnt -rno TARGET | { grep -F "$work/" || true; } | sort -r | xargs -r umount --lazy
    rmdir /sys/fs/cgroup/{,*/}"mpiup-$$" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap leave EXIT
says() { # says WHAT WANTED GOT
    [[ $3 == *"$2"* ]] || { printf '%s says\n%s\nand not %s\n' "$1" "$3" "$2" >&2; exit 1; }
    echo "$1: ok"
}

"$bin/crane" registry serve --address 127.0.0.1:0 >"$work/registry.log" 2>&1 &
registry=$!
until port=$(sed -n 's/.*serving on port //p' "$work/registry.log") && [ -n "$port" ]; do kill -0 $registry; done
at=127.0.0.1:$port
declare -A digest
for image in mpiup; do
    mkdir "$work/layout"
    tar -xf "$out/$image-image-$version.oci.tar" -C "$work/layout"
    "$bin/crane" push "$work/layout" "$at/$image:$version" >/dev/null 2>&1
    rm -r "$work/layout"
    payload=$out/$image-image-$version.payload.json
    digest[$image]=$(grep -o 'sha256:[0-9a-f]*' "$payload")
    says "$image: what was pushed" "${digest[$image]}" "$("$bin/crane" digest "$at/$image:$version")"
    name=$at/$image@${digest[$image]}
    "$bin/cosign" attach signature --payload "$payload" --signature "$payload.sig" "$name" 2>/dev/null
    "$bin/cosign" attach attestation --attestation "$out/provenance.dsse.json" "$name" 2>/dev/null
    trusted=(--key "$out/release.pub" --insecure-ignore-tlog --allow-http-registry)
    says "$image: cosign verify" "${digest[$image]}" "$("$bin/cosign" verify "${trusted[@]}" "$name" 2>&1)"
    says "$image: cosign verify-attestation" "https://slsa.dev/provenance/v1" \
        "$("$bin/cosign" verify-attestation "${trusted[@]}" --type slsaprovenance1 "$name" 2>&1 | sed -nE 's/.*"payload":"([^"]*)".*/\1/p' | base64 -d)"
done
openssl ecparam -name prime256v1 -genkey -noout | openssl pkey -pubout -out "$work/another.pub"
if "$bin/cosign" verify --key "$work/another.pub" --insecure-ignore-tlog --allow-http-registry "$name" >/dev/null 2>&1; then
    echo "cosign takes another key" >&2
    exit 1
fi
says "cosign verify-blob SHA256SUMS" "Verified OK" "$("$bin/cosign" verify-blob --key "$out/release.pub" --insecure-ignore-tlog --signature "$out/SHA256SUMS.sig" "$out/SHA256SUMS" 2>&1)"

for image in "${!digest[@]}"; do "${podman[@]}" pull -q --tls-verify=false "$at/$image@${digest[$image]}" >/dev/null; done
run() { # with limits that a user without privileges may set
    "${podman[@]}" run --cgroup-parent "/mpiup-$$" --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --read-only --cap-drop all --security-opt no-new-privileges "$@"
}
says "mpiup by podman" "mpiup $version (" "$(run --rm --network none "$at/mpiup@${digest[mpiup]}" version)"
says "two ranks in it" "mpiup $version (" "$(run --rm --network none "$at/mpiup@${digest[mpiup]}" run -n 2 /mpiup version)"
