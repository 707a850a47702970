#!/usr/bin/env bash
# build.sh CC FILE: makes libmpiup-watch.so with that C compiler. It is linked against nothing, so that one file serves old and new glibc
# and musl; a warning is an error.
set -euo pipefail
cd "$(dirname "$0")/../../.."
mkdir -p "$(dirname "$2")"
"$1" -std=c11 -O2 -Wall -Wextra -Werror -fPIC -shared -nostdlib -fvisibility=hidden -fno-stack-protector -fno-plt -fexceptions \
    -ftls-model=initial-exec -ffile-prefix-map="$PWD"=. -Wl,-z,now,-z,relro,-z,noexecstack,--build-id=none,-s,-soname,libmpiup-watch.so \
    -o "$2.new" agent/watch/preload/{calls,comm,pace,request,state,sum}.c
mv "$2.new" "$2"
