package identity

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// sharedScheme marks leaves of the shared-secret mode: "mpiup-shared:ROLE/NAME". Certificate
// files never pass with it, nor derived leaves without, so it says which mode a verified peer
// is in.
const sharedScheme = "mpiup-shared"

// Peer is who is at the other end of a connection.
type Peer struct {
	Name string // host name, or what the certificate calls it
	Role Role
	Also Role // a second role, of a certificate file that names both; usually ""
	// RoleProven: the role comes from a certificate that someone issued. In the shared-secret
	// mode it is false, since any member can mint either role.
	RoleProven bool

	group string // of a certificate file: what must be equal within a job
}

// Require returns an error unless p has one of the roles. It is asked in both modes; in the
// shared-secret mode it keeps mistakes out, not attackers.
func Require(p Peer, roles ...Role) error {
	var want []string
	for _, r := range roles {
		if p.Role == r || p.Also == r {
			return nil
		}
		want = append(want, string(r))
	}
	return fmt.Errorf("%.64q has the role %q in its certificate, this needs %s", p.Name, p.Role, strings.Join(want, " or "))
}

func sharedPeer(leaf *x509.Certificate) (Peer, error) {
	if len(leaf.URIs) != 1 || leaf.URIs[0].Scheme != sharedScheme {
		return Peer{}, errors.New("its certificate has no URI mpiup-shared:ROLE/NAME, which each that is made of a key has")
	}
	role, escaped, _ := strings.Cut(leaf.URIs[0].Opaque, "/")
	name, err := url.PathUnescape(escaped)
	if err != nil || !isRole(role) || !goodName(name) {
		return Peer{}, fmt.Errorf("its certificate's URI %.100q is not mpiup-shared:ROLE/NAME; it may be of another mpiup", leaf.URIs[0])
	}
	return Peer{Name: name, Role: Role(role)}, nil
}

// certificatePeer reads role and name out of a certificate file's leaf:
//
//	URI   mpiup://GROUP/ROLE/NAME                  ROLE: launcher or agent
//	URI   spiffe://DOMAIN/PATH/ROLE[/NAME]         the group is DOMAIN/PATH
//	URI   spiffe://DOMAIN/PATH/PREFIX-ROLE         the group is DOMAIN/PATH (a service account's name)
//	OU    mpiup-ROLE, without such a URI           the group is "O=" with the organization
//
// Two URIs or OUs of one group may give both roles. A SPIFFE URI whose last two parts are roles names none, since it is not
// clear which. Where no URI has a NAME, it is the common name or else the first DNS name. Only certificates of one group form a job: where
// one CA serves many teams, as in a SPIFFE trust domain, it is the group that keeps them apart.
func certificatePeer(leaf *x509.Certificate) (Peer, error) {
	var found []Peer
	for _, u := range leaf.URIs {
		if p, ok := uriPeer(u); ok {
			found = append(found, p)
		}
	}
	if found == nil {
		for _, ou := range leaf.Subject.OrganizationalUnit {
			if role, ok := strings.CutPrefix(ou, "mpiup-"); ok && isRole(role) {
				found = append(found, Peer{Role: Role(role), group: "O=" + strings.Join(leaf.Subject.Organization, ",")})
			}
		}
	}
	if found == nil {
		return Peer{}, errors.New("its certificate names no role: add the URI mpiup://GROUP/launcher/NAME or mpiup://GROUP/agent/NAME")
	}
	p := found[0]
	for _, other := range found[1:] {
		if other.group != p.group {
			return Peer{}, fmt.Errorf("its certificate names two groups, %.64q and %.64q", p.group, other.group)
		}
		if other.Role != p.Role {
			p.Also = other.Role
		}
		p.Name = cmp.Or(p.Name, other.Name)
	}
	p.Name = cmp.Or(p.Name, leaf.Subject.CommonName)
	if p.Name == "" && len(leaf.DNSNames) > 0 {
		p.Name = leaf.DNSNames[0]
	}
	if !goodName(p.Name) {
		return Peer{}, errors.New("its certificate names no host: give the URI a last part, or set the common name")
	}
	p.RoleProven = true
	return p, nil
}

func uriPeer(u *url.URL) (Peer, bool) {
	seg := strings.Split(strings.Trim(u.Path, "/"), "/")
	n := len(seg)
	switch u.Scheme {
	case "mpiup":
		if u.Host != "" && n == 2 && isRole(seg[0]) {
			return Peer{Role: Role(seg[0]), Name: seg[1], group: "mpiup://" + u.Host}, true
		}
	case "spiffe":
		group := func(s []string) string { return strings.Join(append([]string{"spiffe://" + u.Host}, s...), "/") }
		switch before := n > 1 && isRole(seg[n-2]); {
		case before && isRole(seg[n-1]):
		case isRole(seg[n-1]):
			return Peer{Role: Role(seg[n-1]), group: group(seg[:n-1])}, true
		case before:
			return Peer{Role: Role(seg[n-2]), Name: seg[n-1], group: group(seg[:n-2])}, true
		}
		if i := strings.LastIndexByte(seg[n-1], '-'); i > 0 && isRole(seg[n-1][i+1:]) {
			return Peer{Role: Role(seg[n-1][i+1:]), group: group(seg[:n-1])}, true
		}
	}
	return Peer{}, false
}

func isRole(s string) bool { return s == string(RoleLauncher) || s == string(RoleAgent) }

// goodName bounds what a certificate may call its holder: it is shown to people.
func goodName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, notPrintable)
}

// notPrintable: no printable character of ASCII, or a blank.
func notPrintable(c rune) bool { return c <= ' ' || c > '~' }
