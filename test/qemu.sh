#!/usr/bin/env bash
# Runs a command where programs of arm64 run as well, by qemu-user: in a user namespace with a binfmt_misc of its own
# (Linux 6.7), so the machine keeps its settings. All users are there by the numbers that they have outside.
#
#   test/qemu.sh COMMAND ARGUMENT...      root; test/setup.sh arm64
set -euo pipefail
work=$(mktemp -d)
child=
trap 'rm -rf "$work"; [ -z "$child" ] || kill $child 2>/dev/null || true' EXIT
mkfifo "$work/mapped"
# The magic of a 64-bit little-endian ELF program of AArch64, as qemu's own binfmt file has it. F: the kernel opens qemu now.
magic=':qemu-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F'
export magic
# The first shell has no user until its namespace has a map; what it executes then has all capabilities there.
# shellcheck disable=SC2016
unshare --user bash -c 'read -r _ <"$0"; exec unshare --mount --pid --fork --kill-child "$@"' "$work/mapped" bash -euc '
mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
printf "%s" "$magic" >/proc/sys/fs/binfmt_misc/register
exec "$@"' sh "$@" <&0 &
child=$!
until [ "$(readlink "/proc/$child/ns/user")" != "$(readlink /proc/$$/ns/user)" ]; do kill -0 $child; done
for ids in uid gid; do echo 0 0 65536 >"/proc/$child/${ids}_map"; done
echo >"$work/mapped"
wait $child
