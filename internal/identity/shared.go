package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// KeyOverlap is how long a key that was replaced in its file still counts beside the new one, from the moment in
// which the new one appeared there. The kubelet brings a changed Secret to all pods of a job within about two
// minutes, each at a time of its own.
const KeyOverlap = 10 * time.Minute

// maxKeys bounds the keys that count at one time: the new one and those that it replaced a moment ago.
const maxKeys = 3

// sharedSource mints this process's leaves from the CA that the job's key gives, and looks at the key's file before
// each handshake (one stat call). When there is another key, both count for a while:
//
//	key A ──────────── file changes ─────────── KeyOverlap ──▶
//	A: ours, accepted │ A: accepted, and shown to who has only A │ A: refused
//	                  │ B: ours, accepted                        │ B: ours, accepted
//
// A client says in its hello (SNI) which CA it would rather see, by its key's id, and a server shows that one's
// leaf if it can. A client then shows the leaf of the CA that the server's was from. So two sides that have
// any key in common can connect. A file that is gone or cannot be read as a key changes nothing and is logged once.
type sharedSource struct {
	scope string
	role  Role
	name  string
	file  string // "": the key never changes
	log   *slog.Logger

	mu       sync.Mutex
	tried    stamp        // of the file as last looked at, guarded by mu
	complain string       // what was logged last, guarded by mu
	keys     []*sharedKey // the newest first, guarded by mu
}

// sharedKey is one key of the job, with our leaf under it.
type sharedKey struct {
	material []byte
	until    time.Time  // accepted until then; zero: it is the newest
	ca       *authority // nil before the first leaf
	leaf     *tls.Certificate
	minted   time.Time // wall clock
}

func (s *sharedSource) current(now time.Time) (material, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh(now)
	m := material{roots: x509.NewCertPool()}
	for _, k := range s.keys {
		if err := k.renew(s, now); err != nil {
			return material{}, err
		}
		m.roots.AddCert(k.ca.cert)
		m.each = append(m.each, issued{hint: hintOf(k.ca.cert), root: k.ca.cert, leaf: k.leaf})
	}
	m.leaf = m.each[0].leaf
	return m, nil
}

// refresh leaves the keys that count now. mu is held.
func (s *sharedSource) refresh(now time.Time) {
	s.look(now)
	s.keys = slices.DeleteFunc(s.keys, func(k *sharedKey) bool { return !k.until.IsZero() && !now.Before(k.until) })
}

// ids are the job ids of the keys that count now, the newest first. One that cannot be derived is otherwise.
func (s *sharedSource) ids(now time.Time, otherwise string) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh(now)
	for _, k := range s.keys {
		id, err := deriveJobID(k.material, labelJobID, s.scope)
		if err != nil {
			id = otherwise
		}
		ids = append(ids, id)
	}
	return ids
}

// renew sees to it that k has a leaf that is young enough.
func (k *sharedKey) renew(s *sharedSource, now time.Time) (err error) {
	// Wall clocks: a suspended machine's monotonic clock stands still, and clocks step.
	age := now.Round(0).Sub(k.minted)
	if k.leaf != nil && age >= 0 && age < leafRenew {
		return nil
	}
	if k.ca == nil {
		if k.ca, err = deriveAuthority(k.material, s.scope); err != nil {
			return err
		}
	}
	leaf, err := mint(k.ca, s.role, s.name, now)
	if err != nil {
		return fmt.Errorf("mint a certificate: %w", err)
	}
	k.leaf, k.minted = leaf, now.Round(0)
	return nil
}

// look takes the key that the file holds now. mu is held.
func (s *sharedSource) look(now time.Time) {
	if s.file == "" {
		return
	}
	at, err := stampOf(s.file)
	if err == nil && at == s.tried {
		return
	}
	var k secret
	if err == nil {
		k, _, err = readKey(s.file, s.file)
		if err == nil && k.at != at {
			return // it is being written: the next look will find it whole
		}
	}
	if err != nil {
		if err.Error() != s.complain {
			s.complain = err.Error()
			s.log.Error("the job's key cannot be read any more, the one that was read stays in use", "file", s.file, "error", err)
		}
		return
	}
	s.tried, s.complain = at, ""
	if bytes.Equal(k.material, s.keys[0].material) {
		return
	}
	began := time.Unix(at.ctime.Unix())
	if began.After(now) { // clocks step
		began = now
	}
	until := began.Add(KeyOverlap)
	for _, old := range s.keys {
		if old.until.IsZero() {
			old.until = until
		}
	}
	s.keys = slices.DeleteFunc(s.keys, func(old *sharedKey) bool { return bytes.Equal(old.material, k.material) })
	s.keys = append([]*sharedKey{{material: k.material}}, s.keys...)
	s.keys = s.keys[:min(len(s.keys), maxKeys)]
	s.log.Info("the job has a new key", "file", s.file, "old one accepted until", until)
}

func (s *sharedSource) peer(leaf *x509.Certificate) (Peer, error) { return sharedPeer(leaf) }

// hintOf names a CA in a client's hello, where a host's name would stand.
func hintOf(ca *x509.Certificate) string { return "key-" + hex.EncodeToString(ca.SubjectKeyId) }

func stampOf(path string) (stamp, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return stamp{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return stamp{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}, nil
}
