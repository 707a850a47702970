#!/usr/bin/env bash
# make vuln: the known vulnerabilities of the modules and of the Go that mpiup's programs are built with, and whether the
# programs call what is vulnerable. Asks the database at vuln.go.dev ($GOVULNDB names another, file:///DIR a copy of it).
# Exits with 3 where there are some, with 1 where that could not be found out. Not in CI, which may not reach it.
set -euo pipefail
cd "$(dirname "$0")/.."
db=${GOVULNDB:-https://vuln.go.dev}
mkdir -p .cache
go build -o .cache/govulncheck golang.org/x/vuln/cmd/govulncheck
rc=0
.cache/govulncheck -db "$db" ./cmd/... 2>.cache/govulncheck.err || rc=$?
case $rc in
    0 | 3) exit $rc ;;
esac
cat .cache/govulncheck.err >&2
echo "vuln: govulncheck did not get through with the database $db (above): nothing is known of any module. Run it where that can be reached, or set GOVULNDB to a copy." >&2
exit 1
