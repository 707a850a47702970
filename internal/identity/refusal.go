package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Refusal is a TLS failure that trying again does not cure: one side refused the other, or
// the peer is no mpiup. Network errors are never one. Its text has the peer as "it" and does
// not name it: fmt.Errorf("host %s: %w", host, err).
type Refusal struct {
	text string
	err  error
	key  bool
}

// OtherKey says that the two sides hold different keys, as for a while after a change of the key. The other side may be of another
// job, too: it has the port of a node at which ours would be, and ours is at one that follows from its key.
func (r *Refusal) OtherKey() bool { return r.key }

func (r *Refusal) Error() string { return r.text }

// Unwrap returns the error of crypto/tls or crypto/x509; it may be nil.
func (r *Refusal) Unwrap() error { return r.err }

// Explain turns err, from a handshake or from a read or write after it, into a *Refusal when
// it is one, and returns it unchanged otherwise. It knows alerts in the text of gRPC's errors
// too. peer is the other side's certificate if known; alerts do not bring it.
func (i *Identity) Explain(err error, peer *x509.Certificate) error {
	var (
		refusal *Refusal
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
	)
	switch {
	case err == nil || errors.As(err, &refusal):
		return err
	case errors.As(err, &verify) && len(verify.UnverifiedCertificates) > 0:
		return i.judge(verify.UnverifiedCertificates[0], verify.Err)
	case errors.As(err, &record):
		return notTLS(record)
	}
	if _, alert, ok := strings.Cut(err.Error(), "remote error: "); ok {
		return i.alert(alert, peer, err)
	}
	// The rest of crypto/tls's own complaints (versions, malformed messages) have no type;
	// errors of the network below come as they are and do not begin so.
	if strings.HasPrefix(err.Error(), "tls: client didn't provide a certificate") {
		return &Refusal{text: "it shows no certificate: it is no member of this job", err: err}
	}
	if strings.Contains(err.Error(), "supported by both client and server") {
		return &Refusal{text: fmt.Sprintf("it offers no cipher or key exchange that we take%s (%.200v)", ifFIPS(", in FIPS 140-3 mode"), err), err: err}
	}
	if strings.HasPrefix(err.Error(), "tls: ") {
		return &Refusal{text: fmt.Sprintf("it speaks TLS, but not as mpiup does (%.200v): something else "+
			"listens there, or it is too old", err), err: err}
	}
	return err
}

// files says that certificate files were named, and there is no shared secret.
func (i *Identity) files() bool {
	_, files := i.source.(*fileSource)
	return files
}

// judge says why we refused a certificate. Everything in it is the peer's word.
func (i *Identity) judge(leaf *x509.Certificate, err error) *Refusal {
	r := &Refusal{err: err}
	var (
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
	)
	shared := len(leaf.URIs) == 1 && leaf.URIs[0].Scheme == sharedScheme
	if unfit := approved([]*x509.Certificate{leaf}); unfit != nil {
		return &Refusal{text: unfit.Error(), err: err}
	}
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		r.text = i.dates(leaf, shared)
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		r.text = "its certificate is not for this use: it needs the usages server auth (agents) and client auth"
	case !errors.As(err, &unknown):
		r.text = fmt.Sprintf("its certificate cannot be verified (%.200v)", err)
	case shared && i.files():
		r.text = "it uses a shared secret and we certificates (--tls-dir): give both the same"
	case shared:
		r.text, r.key = i.otherJob(leaf.Issuer.CommonName), true
	case i.files():
		r.text = fmt.Sprintf("its certificate is from %.100q, which our ca.crt does not hold", leaf.Issuer.String())
	default:
		r.text = fmt.Sprintf("its certificate is from %.100q and not of this job: something else listens there, "+
			"or it runs with --tls-dir and we do not", leaf.Issuer.String())
	}
	return r
}

func (i *Identity) otherJob(theirs string) string {
	if theirs == i.scope {
		again := ""
		if i.pods {
			again = " (a job that was made anew has a new one)"
		}
		return fmt.Sprintf("it holds the secret of another job, though of the same name %q: %s%s", theirs, i.alike(), again)
	}
	return fmt.Sprintf("it holds the secret of another job (its job is %.100q, ours %q): if they are one job, "+
		"give both the same --job or MPIUP_JOB", theirs, i.scope)
}

// alike is how all hosts get one secret.
func (i *Identity) alike() string {
	if i.pods {
		return "mount the same Secret in all pods"
	}
	return "give all hosts and mpiup run the same key (--key FILE or MPIUP_KEY)"
}

const clockFormat = "2006-01-02 15:04:05 UTC"

func (i *Identity) dates(leaf *x509.Certificate, shared bool) string {
	if shared {
		return "its certificate is not valid by our clock: " + i.skew(leaf)
	}
	what := "expired at"
	t := leaf.NotAfter
	if i.now().Before(leaf.NotBefore) {
		what, t = "begins at", leaf.NotBefore
	}
	return fmt.Sprintf("its certificate %s %s and our clock reads %s: renew it, or set the clocks",
		what, t.UTC().Format(clockFormat), i.now().UTC().Format(clockFormat))
}

// skew reads the peer's clock out of its certificate. A leaf is renewed after leafRenew, so
// the clock is known to within that.
func (i *Identity) skew(leaf *x509.Certificate) string {
	theirs := mintedAt(leaf)
	apart := theirs.Sub(i.now()).Round(time.Minute)
	return fmt.Sprintf("its clock read %s when it made the certificate (at most %s ago), ours reads %s, %s apart: set the clocks",
		theirs.UTC().Format(clockFormat), hours(leafRenew), i.now().UTC().Format(clockFormat), hours(apart.Abs()))
}

func hours(d time.Duration) string {
	if d < time.Hour {
		return fmt.Sprintf("%dmin", int(d.Minutes()))
	}
	return fmt.Sprintf("%dh%02dmin", int(d.Hours()), int(d.Minutes())%60)
}

// TLS alerts (RFC 8446, 6) that have a meaning of their own here.
const (
	alertBadCertificate      = tls.AlertError(42)
	alertUnsupportedCert     = tls.AlertError(43)
	alertRevoked             = tls.AlertError(44)
	alertExpired             = tls.AlertError(45)
	alertCertificateUnknown  = tls.AlertError(46)
	alertUnknownCA           = tls.AlertError(48)
	alertAccessDenied        = tls.AlertError(49)
	alertCertificateRequired = tls.AlertError(116)
	alertNoALPN              = tls.AlertError(120)
)

// alert says why the peer refused us. Only the alert's text is at hand: crypto/tls wraps it
// in a type of its own, and gRPC keeps no types.
func (i *Identity) alert(text string, peer *x509.Certificate, err error) *Refusal {
	r := &Refusal{err: err}
	is := func(alerts ...tls.AlertError) bool {
		for _, a := range alerts {
			if strings.HasPrefix(text, a.Error()) {
				return true
			}
		}
		return false
	}
	short, _, _ := strings.Cut(strings.TrimPrefix(text, "tls: "), "\"")
	short = fmt.Sprintf("%.60s", short)
	switch {
	case is(alertUnknownCA):
		r.text = "it refuses our certificate, as it holds the secret (or the CA) of another job: " + i.alike()
		if r.key = !i.files(); i.files() {
			r.text = "it refuses our certificate, as its ca.crt does not hold our CA"
		}
	case is(alertExpired) && peer != nil && len(peer.URIs) == 1 && peer.URIs[0].Scheme == sharedScheme:
		r.text = "it refuses our certificate for its dates: " + i.skew(peer)
	case is(alertExpired):
		r.text = fmt.Sprintf("it refuses our certificate as expired or not valid yet; our clock reads %s: "+
			"set the clocks, or renew the certificate", i.now().UTC().Format(clockFormat))
	case is(alertBadCertificate, alertUnsupportedCert, alertRevoked, alertCertificateUnknown, alertAccessDenied, alertCertificateRequired):
		r.text = "it refuses our certificate (" + short + "): the job, a date, the role, group or usage does not fit, and its own log says which"
	case is(alertNoALPN):
		r.text = "it speaks TLS, but no protocol of mpiup's: something else listens there"
	default:
		r.text = "it ended the TLS handshake (" + short + "): something else listens there, or it is too old" +
			ifFIPS(", or takes nothing that FIPS 140-3 mode leaves us")
	}
	return r
}

func notTLS(record tls.RecordHeaderError) *Refusal {
	h := record.RecordHeader
	what := fmt.Sprintf("it begins with %q", h[:])
	switch {
	case string(h[:4]) == "SSH-":
		what = "an SSH server, by its first bytes"
	case string(h[:5]) == "HTTP/":
		what = "a plain HTTP server, by its first bytes"
	}
	return &Refusal{text: "it does not speak TLS (" + what + "): something else listens there", err: record}
}
