// Package identity gives a process its place in a job. From what the job's pods already share, a mounted secret or
// certificate files, it derives mutual TLS 1.3, a job id and the ports to look at.
//
//	key file (any encoding) ──normalise──┐
//	                                     ├─ HKDF-SHA256 ─┬─ "mpiup/1 ca"     → Ed25519 CA, the same in every process
//	scope ("J.NS", LWS group, --job) ────┘               │                       └─ leaf, minted here, now−24h … now+24h
//	                                                     └─ "mpiup/1 job id" → 32 hex digits → ports
//
//	The key's file is looked at before each handshake; after a change both keys count for a while (shared.go).
//
//	--tls-dir: tls.crt tls.key ca.crt, read again when they change; job id from CA key + scope
//
// In the first form any process that can read the key is a member of every job whose pods
// mount it, and roles are advisory; in the second roles come from the certificate
// (see certificatePeer). docs/security.md says what each proves.
//
// Everything exported is safe for concurrent use. No goroutine is started: leaves are minted
// and files read again at the next handshake, in the goroutine that needs them, or by Prepare.
//
// The package opens no sockets and checks no DNS names: a peer is known by its job and role.
package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"
)

// Role is what a process is to its job.
type Role string

// The two roles: a launcher starts work on agents, an agent runs it.
const (
	RoleLauncher Role = "launcher"
	RoleAgent    Role = "agent"
)

// Options says where to look. Zero values are useful but for Role.
type Options struct {
	KeyFile  string              // --key: a file, or a directory with one; "" is MPIUP_KEY, then the search (see find.go)
	TLSDir   string              // --tls-dir: a directory with tls.crt, tls.key and ca.crt, read again when they change; "" is MPIUP_TLS_DIR
	Named    []NamedKey          // keys that ssh's options and files name, for where the pod mounts none
	Insecure bool                // a key that everybody knows; the caller binds loopback only
	Scope    string              // --job; "" is MPIUP_JOB, then the search (see scope.go)
	Role     Role                // of this process
	Name     string              // this process's host name; goes into its certificate
	Env      func(string) string // environment; nil is an empty one
	Root     string              // directory that holds etc, proc and so on; "" is "/"
	Now      func() time.Time    // wall clock; nil is time.Now
	Log      *slog.Logger        // told once of certificate files that cannot be used; nil is silent
}

// NamedKey is a file that ssh's command line or configuration names.
type NamedKey struct {
	File       string // absolute
	From       string // who names it, for messages
	Insist     bool   // a file that is there and cannot be used is an error; without it such a file is passed over
	Authorized string // a list of authorized keys: the key counts only if it is named there; "": it counts by itself
}

// Identity is this process's place in its job. Make one with Load.
type Identity struct {
	jobID     string
	scope     string
	scopeFrom string
	keyFrom   string
	mounted   bool
	insecure  bool
	pods      bool // this host is a pod of Kubernetes
	now       func() time.Time
	source    source
}

// source is what differs between the shared secret and certificate files.
type source interface {
	// current returns what the next handshake uses.
	current(now time.Time) (material, error)
	// peer reads the name and role out of a certificate whose chain was verified.
	peer(leaf *x509.Certificate) (Peer, error)
}

// material is one generation of certificates.
type material struct {
	leaf  *tls.Certificate // ours
	roots *x509.CertPool   // what peers' must lead to
	each  []issued         // our leaves by CA, where we have several CAs; ours above is the first's
}

// issued is our leaf under one of the job's CAs.
type issued struct {
	hint string // how clients name that CA
	root *x509.Certificate
	leaf *tls.Certificate
}

// hinted is the leaf to show to a client with that hint.
func (m material) hinted(hint string) *tls.Certificate {
	for _, e := range m.each {
		if e.hint == hint {
			return e.leaf
		}
	}
	return m.leaf
}

// under is our leaf of the CA that a peer's chain led to.
func (m material) under(chains [][]*x509.Certificate) *tls.Certificate {
	for _, e := range m.each {
		for _, chain := range chains {
			if len(chain) > 0 && chain[len(chain)-1].Equal(e.root) {
				return e.leaf
			}
		}
	}
	return m.leaf
}

// Load finds the secret (or certificate files) and the scope, and derives the identity.
// Without any secret the error is ErrNoSecret and says what to mount.
func Load(o Options) (*Identity, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	i := &Identity{now: o.Now, insecure: o.Insecure, pods: o.inPod()}
	if i.scope, i.scopeFrom, err = findScope(o); err != nil {
		return nil, err
	}
	if o.TLSDir != "" {
		if i, err = i.fromFiles(o); errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w; %s", err, o.readable())
		}
		return i, err
	}
	s := secret{material: []byte(insecureMaterial), from: "--insecure (a key that everybody knows)"}
	if !o.Insecure {
		if s, err = findSecret(o); errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w; %s", err, o.readable())
		}
		if err != nil {
			return nil, err
		}
	}
	i.keyFrom, i.mounted = s.from, s.mounted
	if i.jobID, err = deriveJobID(s.material, labelJobID, i.scope); err != nil {
		return nil, err
	}
	i.source = &sharedSource{scope: i.scope, role: o.Role, name: o.Name, file: s.file, tried: s.at, log: o.Log,
		keys: []*sharedKey{{material: s.material}}}
	return i, nil
}

// Prepare makes the certificate that the first handshake would make otherwise. A launcher
// does it beside its search for hosts. What fails here fails in the handshake too, which says so.
func (i *Identity) Prepare() { _, _ = i.source.current(i.now()) }

func (i *Identity) fromFiles(o Options) (*Identity, error) {
	s := &fileSource{dir: o.TLSDir, role: o.Role, now: o.Now, log: o.Log}
	if err := s.open(); err != nil {
		return nil, err
	}
	id, err := deriveJobID(s.ca.RawSubjectPublicKeyInfo, labelFiles, i.scope)
	if err != nil {
		return nil, err
	}
	i.jobID, i.source, i.keyFrom, i.mounted = id, s, "--tls-dir "+o.TLSDir, true
	return i, nil
}

// inPod says that this host is a pod of Kubernetes, which tells each where its API is.
func (o Options) inPod() bool { return o.Env("KUBERNETES_SERVICE_HOST") != "" }

// readable is what makes a key readable.
func (o Options) readable() string {
	if o.inPod() {
		return "set the pod's securityContext.fsGroup, or in an MPIJob sshAuthMountPath to a path other than /root/.ssh, or the volume's defaultMode"
	}
	return "let this user read it (chown), or name another with --key"
}

// complete fills in defaults and refuses contradictions.
func (o Options) complete() (Options, error) {
	if o.Env == nil {
		o.Env = func(string) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Name == "" {
		o.Name = "unnamed"
	}
	if !goodName(o.Name) {
		return o, fmt.Errorf("%.64q cannot be the name of a host: at most %d bytes of printable ASCII", o.Name, maxName)
	}
	if o.TLSDir == "" && o.KeyFile == "" && !o.Insecure {
		if o.TLSDir = o.Env("MPIUP_TLS_DIR"); o.TLSDir != "" && o.Env("MPIUP_KEY") != "" {
			return o, errors.New("MPIUP_KEY and MPIUP_TLS_DIR exclude each other: give the secret or the certificates")
		}
	}
	switch {
	case o.Role != RoleLauncher && o.Role != RoleAgent:
		return o, fmt.Errorf("identity: no such role: %q", o.Role)
	case o.TLSDir != "" && o.KeyFile != "":
		return o, errors.New("--key and --tls-dir exclude each other: give the secret or the certificates")
	case o.Insecure && (o.TLSDir != "" || o.KeyFile != ""):
		return o, errors.New("--insecure uses a key that everybody knows: do not give --key or --tls-dir with it")
	}
	return o, nil
}

// JobID is 32 hex digits, of the key read at Load, whatever key follows it (Ports). Processes of a job that read one key have one. It is no secret.
func (i *Identity) JobID() string { return i.jobID }

// Scope is the name that sets this job apart from others with the same secret.
func (i *Identity) Scope() string { return i.scope }

// ScopeFrom says where Scope came from: a flag, a variable, a file, or "default".
func (i *Identity) ScopeFrom() string { return i.scopeFrom }

// KeyFrom says where the secret or the certificates came from; "": there are none.
func (i *Identity) KeyFrom() string {
	if i == nil {
		return ""
	}
	return i.keyFrom
}

// Pods reports that this host, and so, as far as it knows, each of the job, is a pod of Kubernetes.
func (i *Identity) Pods() bool { return i != nil && i.pods }

// Insecure reports that there is no secret: the key is one that everybody knows, and agents that use
// it listen on loopback addresses only.
func (i *Identity) Insecure() bool { return i.insecure }

// Self is this process as peers see it.
func (i *Identity) Self() (Peer, error) {
	m, err := i.source.current(i.now())
	if err != nil {
		return Peer{}, err
	}
	leaf, err := x509.ParseCertificate(m.leaf.Certificate[0])
	if err != nil {
		return Peer{}, err
	}
	return i.source.peer(leaf)
}

// Mounted reports whether the secret lies on a volume mounted for it, or certificate files were named. That is a sign
// of being in a pod of a job, where DNS and gossip are worth asking.
func (i *Identity) Mounted() bool { return i.mounted }
