#!/usr/bin/env bash
# build.sh CC FILE: makes libmpiup-watch.so with that C compiler. It is linked against nothing, so that one file serves old and new glibc and
# musl; it exports nothing, and its constructor runs before all others (initfirst, which glibc knows). A warning is an error.
set -euo pipefail
cd "$(dirname "$0")/../../.."
mkdir -p "$(dirname "$2")"
# gcc for arm64 calls libgcc for atomic operations unless told otherwise; nothing but a libc's own may be undefined here, and that is weak (-z defs).
# On amd64 the library says that it bears shadow stacks: else glibc would switch them off for the program.
processor=()
case $("$1" -dumpmachine) in
aarch64*) processor=(-mno-outline-atomics) ;;
x86_64*) processor=(-fcf-protection=full) ;;
esac
nothing=$(mktemp)
trap 'rm -f "$nothing"' EXIT
echo '{ local: *; };' >"$nothing"
"$1" -std=c11 -O2 -Wall -Wextra -Werror -fPIC -shared -nostdlib -fvisibility=hidden -fno-stack-protector -fno-plt -fexceptions -fno-builtin \
    -fno-tree-loop-distribute-patterns -ftls-model=initial-exec -ffile-prefix-map="$PWD"=. "${processor[@]}" \
    -Wl,-z,defs,-z,now,-z,relro,-z,noexecstack,-z,initfirst,--build-id=none,-s,--version-script="$nothing",-soname,libmpiup-watch.so \
    -o "$2.new" agent/watch/preload/{calls,comm,environment,imports,nccl,pace,request,state,sum}.c
mv "$2.new" "$2"
