#!/usr/bin/env bash
# The layer of Debian that mpiup-openmpi and mpiup-mpich stand on: a tree of the packages in debian.lock and nothing else, with
# their scripts run (arm64's by qemu), and the user mpiuser. Equal locks and SOURCE_DATE_EPOCH give equal bytes.
#
#   test/release/debian.sh openmpi|mpich amd64|arm64 FILE.tar.gz
#
# Packages come from this machine's mirror of Debian (or MIRROR=URL), and those that left it from snapshot.debian.org. They are
# kept in $XDG_CACHE_HOME/mpiup/debs, trees are not. Needs root. debian-lock.sh writes the lock anew.
set -euo pipefail
cd "$(dirname "$0")/../.."
suite=bookworm
declare -A packages=([openmpi]="apt,ca-certificates,openmpi-bin" [mpich]="apt,ca-certificates,mpich")
mpi=$1 arch=$2 layer=$3
[ "$(id -u)" = 0 ] || { echo "the images of Debian are made by root: run make release as root" >&2; exit 1; }
run=()
case $(dpkg --print-architecture)/$arch in
    "$arch/$arch") ;;
    amd64/arm64) run=(test/qemu.sh) ;;
    *) echo "packages for $arch cannot run here: make the release on amd64, or with ARCHES=$(dpkg --print-architecture)" >&2; exit 1 ;;
esac
debs=${XDG_CACHE_HOME:-$HOME/.cache}/mpiup/debs
mkdir -p "$debs"
work=$(mktemp -d -p "${TMPDIR:-/dev/shm}") # in memory, some 700 MB: dpkg syncs each file
export TMPDIR=$work
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"

locked() { sed -n '/^[0-9a-f]/s/  /\t/p' test/release/debian.lock | grep -E "_($arch|all)\.deb$"; }
bring() { # bring MIRROR SECURITY'S: what is not there yet
    local sum path wanted=()
    while IFS=$'\t' read -r sum path; do
        [ -e "$debs/$sum.deb" ] && continue
        case $path in pool/updates/*) wanted+=("$2/$path") ;; *) wanted+=("$1/$path") ;; esac
        wanted+=("$debs/$sum.deb" "SHA256:$sum")
    done < <(locked)
    [ ${#wanted[@]} = 0 ] || /usr/lib/apt/apt-helper download-file "${wanted[@]}" >"$work/bring.log" 2>&1
}
mirror=${MIRROR:-$(awk '$1 == "URIs:" { print $2; exit } $1 == "deb" { print $2; exit }' /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true)}
read -r _ time _ <test/release/debian.lock
snapshot=http://snapshot.debian.org/archive
exec 9>"$debs/lock"
flock 9
bring "$mirror" "$mirror-security" || bring "$snapshot/debian/${time%,}" "$snapshot/debian-security/${time%,}" ||
    { tail -20 "$work/bring.log" >&2; echo "packages of test/release/debian.lock are not to be had; test/release/debian-lock.sh takes today's" >&2; exit 1; }
exec 9>&-

mkdir "$work/repository"
while IFS=$'\t' read -r sum path; do
    echo "$sum  $debs/$sum.deb" >>"$work/sums"
    ln -s "$debs/$sum.deb" "$work/repository/${path##*/}"
done < <(locked)
sha256sum --quiet -c "$work/sums"
(cd "$work/repository" && dpkg-scanpackages --multiversion . >Packages 2>"$work/scan.log") || { cat "$work/scan.log" >&2; exit 1; }
# mmdebstrap asks apt for what is essential in the suite of this name.
printf 'Codename: %s\nSHA256:\n %s %s Packages\n' $suite "$(sha256sum "$work/repository/Packages" | cut -d' ' -f1)" \
    "$(stat -c %s "$work/repository/Packages")" >"$work/repository/Release"

# The image's own sources are those of apt's example.
dpkg-deb --fsys-tarfile "$work"/repository/apt_*.deb | tar -xO ./usr/share/doc/apt/examples/sources.list | sed '/^#/d; s/ main .*/ main/' >"$work/sources.list"
chmod 644 "$work/sources.list"
# As Debian's slim images: no documentation but licences. mmdebstrap leaves two files of this machine.
options=()
for o in path-exclude=/usr/share/{doc,man,locale,info}/'*' path-include=/usr/share/doc/'*'/copyright; do
    options+=(--dpkgopt="$o")
done
"${run[@]}" mmdebstrap --mode=root --variant=minbase --architectures="$arch" --format=tar \
    --skip=check/qemu,output/dev,output/mknod --include="${packages[$mpi]}" "${options[@]}" \
    --customize-hook='rm "$1/etc/hostname" "$1/etc/resolv.conf"' --customize-hook="copy-in $work/sources.list /etc/apt" \
    --customize-hook='chroot "$1" sh -ec "useradd --create-home --uid 1000 --gid 0 mpiuser && echo Port 2222 >/home/mpiuser/.sshd_config && chmod -R g=u /home/mpiuser"' \
    "$suite" "$work/tree.tar" "deb [trusted=yes] copy:$work/repository ./" >"$work/mmdebstrap.log" 2>&1 ||
    { tail -20 "$work/mmdebstrap.log" >&2; exit 1; }
gzip -n <"$work/tree.tar" >"$layer"
