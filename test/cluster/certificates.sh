#!/usr/bin/env bash
# Makes the cluster's CA, its certificates in run/pki, and run/*.kubeconfig.
set -euo pipefail
. "$(dirname "$0")/versions.sh"
. "$(dirname "$0")/nodes.sh"
mkdir -p "$run/pki" && cd "$run/pki"
ssl() { openssl "$@" 2>>openssl.log || { cat openssl.log >&2; return 1; }; }
key() { ssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
key ca
ssl req -x509 -new -key ca.key -subj "/CN=$name" -days 365 -out ca.crt \
    -addext keyUsage=critical,keyCertSign,digitalSignature -addext basicConstraints=critical,CA:TRUE
ssl genrsa -out accounts.key 2048
ssl rsa -in accounts.key -pubout -out accounts.pub

certificate() { # certificate NAME SUBJECT [NAMES]
    key "$1"
    ssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
    { echo extendedKeyUsage=clientAuth,serverAuth; [ -z "${3:-}" ] || echo "subjectAltName=$3"; } >"$1.ext"
    ssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile "$1.ext" -out "$1.crt"
}
user() { # user NAME SUBJECT [NAMES]: with a kubeconfig
    certificate "$@"
    cat >"$run/$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: "https://10.99.0.11:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: it, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
YAML
}
certificate apiserver /CN=kube-apiserver \
    DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:10.99.0.11
user admin /O=system:masters/CN=admin
user controllers /CN=system:kube-controller-manager
user scheduler /CN=system:kube-scheduler
user proxy /CN=system:kube-proxy
for n in 1 2; do user "node$n" "/O=system:nodes/CN=system:node:node$n" "DNS:node$n,IP:10.99.0.1$n"; done
