#!/usr/bin/env bash
# The SBOM of a directory or an OCI layout, in SPDX 2.3, by syft. Equal content gives equal bytes: syft's own time and random
# name of the document are replaced by SOURCE_DATE_EPOCH and the content's digest.
#
#   test/release/sbom.sh dir:DIRECTORY|oci-dir:DIRECTORY NAME VERSION FILE
set -euo pipefail
cd "$(dirname "$0")/../.."
tool=github.com/anchore/syft/cmd/syft@v1.32.0
bin=$PWD/.cache/release
mkdir -p "$bin"
if [ "$(cat "$bin/syft.version" 2>/dev/null)" != "$tool" ]; then
    echo "building $tool (minutes)"
    CGO_ENABLED=0 GOBIN=$bin GOFLAGS=-trimpath go install "$tool"
    echo "$tool" >"$bin/syft.version"
fi
SYFT_CHECK_FOR_APP_UPDATE=false "$bin/syft" scan "$1" --quiet --source-name "$2" --source-version "$3" -o "spdx-json=$4"
digest=$(sed -E 's/"documentNamespace":"[^"]*"//; s/"created":"[^"]*"//' "$4" | sha256sum | cut -d' ' -f1)
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
sed -i -E "s|\"documentNamespace\":\"[^\"]*\"|\"documentNamespace\":\"https://github.com/mpiup/mpiup/sbom/$2-$3-$digest\"|; s|\"created\":\"[^\"]*\"|\"created\":\"$created\"|" "$4"
[ "$(grep -o '"SPDXID":"SPDXRef-Package' "$4" | wc -l)" -gt 1 ] || { echo "the SBOM of $1 lists no packages" >&2; exit 1; }
