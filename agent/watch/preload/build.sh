#!/usr/bin/env bash
# build.sh CC FILE: makes libmpiup-watch.so with that C compiler. It is linked against no version of a libc, so that one file serves old and new
# glibc and musl; a warning is an error. It needs libdl.so.2, where dlsym is before glibc 2.34: a program may have no libdl (MPICH 3's have none),
# and then the calls behind this library could not be found. Later glibc has an empty file of that name, and musl takes the name for its own libc.
set -euo pipefail
cd "$(dirname "$0")/../../.."
mkdir -p "$(dirname "$2")"
named=$(mktemp -d)
trap 'rm -rf "$named"' EXIT
# gcc for arm64 calls libgcc for atomic operations unless told otherwise; nothing but a libc's own may be undefined here, and that is weak (-z defs).
atomics=()
case $("$1" -dumpmachine) in aarch64*) atomics=(-mno-outline-atomics) ;; esac
"$1" -shared -nostdlib -Wl,-soname,libdl.so.2 -o "$named/libdl.so.2" -x c /dev/null
"$1" -std=c11 -O2 -Wall -Wextra -Werror -fPIC -shared -nostdlib -fvisibility=hidden -fno-stack-protector -fno-plt -fexceptions \
    -ftls-model=initial-exec -ffile-prefix-map="$PWD"=. "${atomics[@]}" -Wl,-z,defs,-z,now,-z,relro,-z,noexecstack,--build-id=none,-s,-soname,libmpiup-watch.so \
    -o "$2.new" agent/watch/preload/{calls,comm,nccl,pace,request,state,sum}.c -Wl,--no-as-needed "$named/libdl.so.2"
mv "$2.new" "$2"
