#!/usr/bin/env bash
# What make release-check does with the images of a release: pushes them to a registry of crane's on 127.0.0.1, has cosign verify
# signatures and provenance there, and runs them.
#
#   test/release/images.sh VERSION DIRECTORY
#
# By podman, which pulls them by digest: mpiup alone, and examples/hello with Open MPI and with MPICH, each on two containers that meet
# over a network of two namespaces, as the image's user. arm64's run by qemu in a chroot. Needs root.
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
hosts=("mpiup-$$-a" "mpiup-$$-b")
# Nothing of this machine's own podman is used or left.
podman=(podman --root "$work/storage" --runroot "$work/run" --storage-driver vfs --cgroup-manager cgroupfs --runtime runc --events-backend none)
registry=
leave() {
    "${podman[@]}" rm --all --force --time 0 >/dev/null 2>&1 || true
    for h in "${hosts[@]}"; do ip netns delete "$h" 2>/dev/null || true; done
    [ -z "$registry" ] || kill "$registry"
    findmnt -rno TARGET | { grep -F "$work/" || true; } | sort -r | xargs -r umount --lazy
    find /sys/fs/cgroup/mpiup-$$ /sys/fs/cgroup/*/mpiup-$$ -depth -type d -exec rmdir {} + 2>/dev/null || true # conmon has one below it
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
for image in mpiup mpiup-openmpi mpiup-mpich; do
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

ip netns add "${hosts[0]}"
ip netns add "${hosts[1]}"
ip link add eth0 netns "${hosts[0]}" type veth peer name eth0 netns "${hosts[1]}"
for n in 0 1; do
    ip -n "${hosts[n]}" link set lo up
    ip -n "${hosts[n]}" link set eth0 up
    ip -n "${hosts[n]}" address add "10.77.0.$((n + 1))/24" dev eth0
done
for image in "${!digest[@]}"; do "${podman[@]}" pull -q --tls-verify=false "$at/$image@${digest[$image]}" >/dev/null; done
run() { # with limits that a user without privileges may set
    "${podman[@]}" run --cgroup-parent "/mpiup-$$" --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --read-only --cap-drop all --security-opt no-new-privileges "$@"
}
says "mpiup by podman" "mpiup $version (" "$(run --rm --network none "$at/mpiup@${digest[mpiup]}" version)"
run --rm --network none "$at/mpiup@${digest[mpiup]}" keygen >"$work/key"
chmod 444 "$work/key"
for mpi in openmpi mpich; do
    name=$at/mpiup-$mpi@${digest[mpiup-$mpi]}
    "mpicc.$mpi" -O2 -rdynamic -o "$work/hello" examples/hello/hello.c
    run --rm --network none "$name" mpiup check-image
    for n in 0 1; do
        run --detach --name "$mpi-$n" --network "ns:/run/netns/${hosts[n]}" --hostname "host-$n" --tmpfs /tmp:mode=1777 \
            --volume "$work/key:/etc/mpiup/key:ro" --volume "$work/hello:/opt/hello:ro" "$name" mpiup agent >/dev/null
    done
    for n in 0 1; do
        until "${podman[@]}" exec "$mpi-$n" mpiup agent --check >/dev/null 2>&1; do
            "${podman[@]}" container inspect --format '{{.State.Running}}' "$mpi-$n" | grep -q true || { "${podman[@]}" logs "$mpi-$n" >&2; exit 1; }
        done
    done
    says "$mpi: the user of its containers" 1000 "$("${podman[@]}" exec "$mpi-0" id -u)"
    got=$("${podman[@]}" exec "$mpi-0" mpirun -n 4 -host 10.77.0.1:2,10.77.0.2:2 /opt/hello 2>&1) || { echo "$got" >&2; exit 1; }
    says "$mpi: a rank in the first container" "of 4 on host-0" "$got"
    says "$mpi: a rank in the second" "of 4 on host-1" "$got"
    "${podman[@]}" rm --force --time 0 "$mpi-0" "$mpi-1" >/dev/null
done

for mpi in openmpi mpich; do
    root=$work/arm64-$mpi
    mkdir -p "$root"/{proc,dev,sys}
    "$bin/crane" export --platform linux/arm64 "$at/mpiup-$mpi@${digest[mpiup-$mpi]}" - | tar -xp -C "$root"
    case $mpi in openmpi) library=libmpi.so.40 ;; mpich) library=libmpich.so.12 ;; esac
    # What this machine's mpicc includes; the headers are those of arm64.
    read -ra headers < <("mpicc.$mpi" -show -c x.c | grep -o -- '-I[^ ]*' | xargs)
    aarch64-linux-gnu-gcc -O2 -rdynamic -o "$root/opt/hello" examples/hello/hello.c "${headers[@]}" \
        "$root/usr/lib/aarch64-linux-gnu/$library" -Wl,--allow-shlib-undefined
    printf '127.0.0.1 localhost %s\n' "$(cat /proc/sys/kernel/hostname)" >"$root/etc/hosts"
    arm() { # arm COMMAND: as the image's user
        # shellcheck disable=SC2016
        test/qemu.sh sh -euc 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; mount --rbind /sys "$0/sys"
            exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/home/mpiuser chroot --userspec=1000:0 "$0" "$@"' "$root" "$@" 2>&1
    }
    says "$mpi for arm64: version" "linux/arm64)" "$(arm mpiup version)"
    arm mpiup check-image --program /opt/hello
    says "$mpi for arm64: two ranks" "rank 1 of 2" "$(arm mpirun -n 2 /opt/hello)"
    rm -rf --one-file-system "$root"
done
