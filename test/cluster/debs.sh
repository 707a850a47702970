#!/usr/bin/env bash
# Unpacks the Debian packages that nodes need into $CLUSTER/debian. Nothing is installed on this machine: nodes lay the
# tree over their /usr.
set -euo pipefail
. "$(dirname "$0")/versions.sh"
[ ! -e "$CLUSTER/debian.done" ] || exit 0
packages=(containerd runc containernetworking-plugins iptables conntrack ipset nftables debootstrap
    libipset13 libnetfilter-conntrack3 libnfnetlink0 libxtables12 libip4tc2 libip6tc2 libnftnl11 libmnl0 libnftables1
    libjansson4 libseccomp2)
mkdir -p "$CLUSTER/deb" && cd "$CLUSTER/deb"
apt-get download -qq -o APT::Sandbox::User=root "${packages[@]}" # it leaves out what is here
for f in *.deb; do dpkg -x "$f" "$CLUSTER/debian"; done
touch "$CLUSTER/debian.done"
