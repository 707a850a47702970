#!/usr/bin/env bash
# apt-get on this machine, which waits for what another apt, as an unattended upgrade, has locked: 10 minutes, or APT_WAIT seconds.
# For dpkg's lock apt-get does so itself (DPkg::Lock::Timeout, apt.conf(5)); for those of lists and archives it gives up at once.
#
#   test/apt/apt.sh update|install ...
set -uo pipefail
until=$((SECONDS + ${APT_WAIT:-600}))
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while :; do
    apt-get -o "DPkg::Lock::Timeout=${APT_WAIT:-600}" "$@" >"$log" 2>&1
    code=$?
    if [ $code = 0 ] || ! grep -qE 'Could not get lock|Unable to lock|Unable to acquire the dpkg frontend lock' "$log"; then break; fi
    if [ $SECONDS -ge $until ]; then
        echo "apt-get $1: another apt has held its lock for ${APT_WAIT:-600} s; \`fuser -v /var/lib/dpkg/lock-frontend /var/lib/apt/lists/lock\` names it" >>"$log"
        break
    fi
    sleep 2
done
cat "$log"
exit $code
