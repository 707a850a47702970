package identity

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// HKDF labels. The number is the version of the derivation: two versions never meet, so a
// change of it is a change of protocol.
const (
	labelCA    = "mpiup/1 ca"
	labelJobID = "mpiup/1 job id"
	labelFiles = "mpiup/1 job id from certificates"
	labelPorts = "mpiup/1 ports"

	insecureMaterial = "mpiup/1 insecure: everybody knows this key"

	// caOrganization marks an issuer as derived by mpiup, for messages only.
	caOrganization = "mpiup"
)

// DefaultPort is the first port an agent tries: 1 and MPIU on a telephone's keys.
const DefaultPort = 16748

// Derived ports lie in [portLow, portHigh): above kubelet's and Istio's, below torchrun's
// 29500, NodePorts (30000-32767) and the kernel's default ip_local_port_range (32768-60999).
const (
	portLow      = 20000
	portHigh     = 29500
	portsDerived = 7
)

// authority is the job's CA, derived from key and scope.
type authority struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func deriveAuthority(material []byte, scope string) (*authority, error) {
	seed, err := expand(material, labelCA, scope, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	cert, err := deriveCA(key, scope)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key}, nil
}

// deriveJobID is the job id, derived from key and scope. That of certificate files (labelFiles) follows from the CA's
// public key, which a renewed CA certificate keeps.
func deriveJobID(material []byte, label, scope string) (string, error) {
	id, err := expand(material, label, scope, 16)
	return hex.EncodeToString(id), err
}

// expand is HKDF-SHA256 (RFC 5869) with label and scope as info; no label holds a NUL.
func expand(material []byte, label, scope string, n int) ([]byte, error) {
	return hkdf.Key(sha256.New, material, nil, label+"\x00"+scope, n)
}

// deriveCA is deterministic: Ed25519 signatures are (RFC 8032), all else is fixed. Its end
// is RFC 5280's "no well-defined expiration date" (4.1.2.5). The scope is in the subject, so
// that a peer of another job can be told apart by name; it is no secret, DNS says it too.
func deriveCA(key ed25519.PrivateKey, scope string) (*x509.Certificate, error) {
	pub := key.Public().(ed25519.PublicKey)
	keyID := sha256.Sum256(pub)
	t := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{Organization: []string{caOrganization}, CommonName: scope},
		NotBefore:             time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
		SubjectKeyId:          keyID[:8],
	}
	der, err := x509.CreateCertificate(nil, t, t, pub, key)
	if err != nil {
		return nil, fmt.Errorf("derive the job's CA: %w", err)
	}
	return x509.ParseCertificate(der)
}

// Ports are those on which an agent of this job may listen, in the order in which it tries
// them: DefaultPort, then seven that follow from the job id, and for a while after a change of the key seven more, of the
// key before. They are distinct and lie below NodePorts and the default ip_local_port_range.
func (i *Identity) Ports() []int {
	ports := []int{DefaultPort}
	for _, id := range i.ids() {
		ports = derived(ports, id)
	}
	return ports
}

// PortsToday are Ports without those of a key that was replaced: launchers that come have the new one.
func (i *Identity) PortsToday() []int { return derived([]int{DefaultPort}, i.ids()[0]) }

// ids are the job's, that of the newest key first.
func (i *Identity) ids() []string {
	s, shared := i.source.(*sharedSource)
	if !shared {
		return []string{i.jobID}
	}
	return s.ids(i.now(), i.jobID)
}

// derived adds the ports of a job id.
func derived(ports []int, id string) []int {
	for n, most := uint32(0), len(ports)+portsDerived; len(ports) < most; n++ {
		sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(labelPorts+"\x00"+id), n))
		p := portLow + int(binary.BigEndian.Uint64(sum[:8])%(portHigh-portLow))
		if !slices.Contains(ports, p) {
			ports = append(ports, p)
		}
	}
	return ports
}
