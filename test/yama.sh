#!/usr/bin/env bash
# make yama: mpiup stacks where Yama forbids tools to trace, in Debian's cloud kernel under qemu. An agent without rights has a rank that sleeps and one
# that polls; both are looked into. A tool may trace neither rank, nor a rank the other: nothing is loosened for it.
#
# Needs root, to install packages; a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
test/setup.sh go yama
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -o "$work/mpiup" ./cmd/mpiup
image=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
(cd "$work" && apt-get download -q "$image" >/dev/null 2>&1 && dpkg -x ./linux-image-*.deb kernel)

# The guest's root is in memory: the programs that it needs, with their libraries.
root=$work/root
mkdir -p "$root"/{proc,sys,tmp,dev,run,etc,usr/bin,usr/sbin,usr/lib,usr/lib64}
for d in bin sbin lib lib64; do ln -s "usr/$d" "$root/$d"; done
chmod 1777 "$root/tmp" "$root/run"
add() { # add FILE...: each where it is here
    local f
    for f; do [ -e "$root$f" ] || { mkdir -p "$root${f%/*}"; cp -L "$f" "$root$f"; }; done
}
for p in bash eu-stack sleep mount setpriv cat grep ip; do
    path=$(command -v "$p")
    # shellcheck disable=SC2046
    add "$path" $(ldd "$path" | grep -o '/[^ ]*')
done
cp "$work/mpiup" "$root/usr/bin/mpiup"
printf 'root:x:0:0::/:/bin/bash\nuser:x:1000:1000::/tmp:/bin/bash\n' >"$root/etc/passwd"

cat >"$root/user.sh" <<'END'
#!/bin/bash
PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp TMPDIR=/tmp
cd /tmp
mpiup run -n 1 bash -c 'echo $$ >/tmp/sleeps; exec sleep 1000' : -n 1 bash -c 'echo $$ >/tmp/polls; while :; do :; done' &
until [ -s sleeps ] && [ -s polls ] && [[ "$(cat "/proc/$(cat sleeps)/comm")" == sleep ]]; do sleep 0.1; done
echo "scope $(cat /proc/sys/kernel/yama/ptrace_scope), capabilities $(grep CapEff /proc/self/status)"
echo "a tool: $(eu-stack -p "$(cat sleeps)" 2>&1 | grep -m1 -i 'not permitted')"
mpiup stacks
grep State "/proc/$(cat polls)/status"
mpiup run -n 1 bash -c 'echo "another rank: $(eu-stack -p "$(cat /tmp/sleeps)" 2>&1 | grep -m1 -i "not permitted")"'
echo "that was all"
END
cat >"$root/init" <<'END'
#!/bin/bash
export PATH=/usr/bin:/bin:/usr/sbin:/sbin
ip link set lo up
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
echo 1 >/proc/sys/kernel/yama/ptrace_scope
setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps=-all --bounding-set=-all bash /user.sh </dev/null >/dev/ttyS0 2>&1
echo o >/proc/sysrq-trigger
sleep 100
END
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"
timeout 150 qemu-system-x86_64 -accel tcg -m 1024 -smp 2 -nographic -no-reboot -net none -kernel "$work"/kernel/boot/vmlinuz-* -initrd "$work/initrd" \
    -append 'console=ttyS0 quiet no_timer_check panic=-1 sysrq_always_enabled' </dev/null >"$work/said" 2>&1 || true
tr -d '\r' <"$work/said" | grep -v '^$' | tail -40
for text in 'scope 1, capabilities CapEff:.0000000000000000' 'a tool: .*not permitted' 'nanosleep' 'another rank: .*not permitted' 'execute_command' 'that was all'; do
    grep -q "$text" "$work/said" || { echo "it does not say: $text" >&2; exit 1; }
done
echo ok
