#!/usr/bin/env bash
# Writes test/release/debian.lock anew: the packages of Debian that the images mpiup-openmpi and mpiup-mpich have, each by its path in
# Debian's pool and its SHA-256, as sha256sum writes them. They are what apt-get picks today; the sums are of Debian's signed
# indices. The first line has the time, for snapshot.debian.org.
#
#   test/release/debian-lock.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
suite=bookworm
mirror=${MIRROR:-$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" { print $2; exit }' /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
signed=/usr/share/keyrings/debian-archive-keyring.gpg
for arch in amd64 arm64; do
    d=$work/$arch
    mkdir -p "$d"/{lists,archives}/partial
    : >"$d/status"
    printf "deb [signed-by=$signed] %s main\n" "$mirror $suite" "$mirror $suite-updates" "$mirror-security $suite-security" >"$d/sources.list"
    apt=(apt-get -qq -o "Dir::State::lists=$d/lists" -o "Dir::State::status=$d/status" -o "Dir::Cache=$d" -o "Dir::Etc::sourcelist=$d/sources.list"
        -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null
        -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o Acquire::ForceHash=SHA256 -o APT::Sandbox::User=root)
    "${apt[@]}" update
    for mpi in openmpi-bin mpich; do
        "${apt[@]}" install --print-uris -y --no-install-recommends '?essential' '?priority(required)' apt ca-certificates $mpi >>"$work/uris"
    done
done
sed -nE "s|^'[^']*/(pool/[^']*)' \S+ [0-9]+ SHA256:([0-9a-f]{64})\$|\2  \1|p" "$work/uris" | sed 's/%2[bB]/+/g; s/%7[eE]/~/g' | sort -u -k2 >"$work/lock"
[ "$(cut -d"'" -f2 "$work/uris" | sort -u | wc -l)" = "$(wc -l <"$work/lock")" ] || { echo "apt-get printed lines that are no package with a SHA-256" >&2; exit 1; }
{ echo "# $(date -u +%Y%m%dT%H%M%SZ), $suite, by test/release/debian-lock.sh"; cat "$work/lock"; } >test/release/debian.lock
wc -l test/release/debian.lock
