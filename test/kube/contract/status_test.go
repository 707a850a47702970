package contract

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	config "github.com/kubeflow/trainer/v2/pkg/apis/config/v1alpha1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"github.com/kubeflow/trainer/v2/pkg/statusserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/mpiup/mpiup/test/credential"
	"github.com/mpiup/mpiup/test/kube/kubelet"
)

// statusServer is Trainer's own server of TrainJobs' statuses on a host, with its gate on. Tokens are signed here, and verified as
// Trainer does it but for where the keys come from: it asks the API server for them, which is none here.
type statusServer struct {
	key    ed25519.PrivateKey
	setup  setting
	server tls.Certificate
	signer []byte
}

const (
	statusService = "kubeflow-trainer-controller-manager"
	statusIssuer  = "https://kubernetes.default.svc"
	trainerSystem = "kubeflow-system"
)

func newStatusServer(t *testing.T, images map[string]kubelet.Image) *statusServer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	authority := credential.NewAuthority("webhooks")
	s := &statusServer{key: key, signer: credential.PEM("CERTIFICATE", authority.Cert.Raw),
		server: authority.Issue(x509.Certificate{DNSNames: []string{statusService + "." + trainerSystem + ".svc"}})}
	port := int32(freePort(t))
	s.setup = setting{jobSets: true, images: images, token: s.token, trainer: config.Configuration{
		StatusServer:   &config.StatusServer{Port: &port},
		CertManagement: &config.CertManagement{WebhookServiceName: statusService, WebhookSecretName: "webhooks"}}}
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// token is what a kubelet gets from the API server.
func (s *statusServer) token(namespace, audience string) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: s.key}, nil)
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(jwt.Claims{Issuer: statusIssuer, Audience: jwt.Audience{audience}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}).
		Claims(map[string]any{"kubernetes.io": map[string]string{"namespace": namespace}}).Serialize()
}

// Init is part of Trainer's TokenAuthorizer.
func (s *statusServer) Init(context.Context) error { return nil }

// Authorize is part of Trainer's TokenAuthorizer.
func (s *statusServer) Authorize(ctx context.Context, header, namespace, name string) (bool, error) {
	keys := &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{s.key.Public()}}
	v := oidc.NewVerifier(statusIssuer, keys, &oidc.Config{ClientID: statusserver.TokenAudience(namespace, name), SupportedSigningAlgs: []string{oidc.EdDSA}})
	token, err := v.Verify(ctx, strings.TrimPrefix(header, "Bearer "))
	if err != nil {
		return false, nil
	}
	var claims struct {
		Kubernetes struct{ Namespace string } `json:"kubernetes.io"`
	}
	return token.Claims(&claims) == nil && claims.Kubernetes.Namespace == namespace, nil
}

// up starts the cluster with the server on its node, where its Service leads.
func (s *statusServer) up(t *testing.T) *lab {
	t.Helper()
	l := up(t, s.setup)
	l.submitted(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: trainerSystem, Name: "webhooks"}, Data: map[string][]byte{"ca.crt": s.signer}})
	server, err := statusserver.NewServer(l.jobSets.Client, s.setup.trainer.StatusServer, &tls.Config{Certificates: []tls.Certificate{s.server}}, s)
	must(t, err)
	port := int(*s.setup.trainer.StatusServer.Port)
	front, err := l.hosts.Listen("node", "tcp", ":"+strconv.Itoa(port))
	must(t, err)
	l.hosts.DNS().Set(statusService+"."+trainerSystem+".svc.cluster.local", l.hosts.Addr("node"))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	failed := make(chan error, 1)
	go func() { // that of Trainer 2.3.0 never returns once it has ended: it waits for a channel that nobody closes
		failed <- server.Start(ctx)
	}()
	all.Go(func() { // the server listens where the test runs
		for {
			c, err := front.Accept()
			if err != nil {
				return
			}
			all.Go(func() { pass(c, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port))) })
		}
	})
	t.Cleanup(func() {
		cancel()
		must(t, front.Close())
		all.Wait()
		select {
		case err := <-failed:
			must(t, err)
		default:
		}
	})
	return l
}

// pass hands a connection's bytes on, both ways, until it is closed.
func pass(c net.Conn, to netip.AddrPort) {
	defer c.Close()
	server, err := net.Dial("tcp", to.String())
	if err != nil {
		return
	}
	defer server.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, server) // an end is an end
		_ = c.Close()
	})
	_, _ = io.Copy(server, c)
	_ = server.Close()
	back.Wait()
}

// status is what kubectl get trainjob shows.
func (l *lab) status(j *trainer.TrainJob) string {
	l.t.Helper()
	l.complete(j) // reads it
	if j.Status.TrainerStatus == nil {
		return ""
	}
	s := j.Status.TrainerStatus.DeepCopy()
	if d := time.Since(s.LastUpdatedTime.Time); d < -time.Minute || d > bound {
		l.t.Errorf("the status is of %v", s.LastUpdatedTime)
	}
	s.LastUpdatedTime = metav1.Time{}
	text, err := json.Marshal(s)
	must(l.t, err)
	return string(text)
}

// A TrainJob's status is told by mpiup to Trainer's own server: what --watch reads while the run goes on, and how it ended.
func TestTrainJobStatus(t *testing.T) {
	t.Parallel()
	images := exampleImages(t)
	s := newStatusServer(t, images)
	l := s.up(t)
	docs := example(t, "trainer-runtime.yaml")
	r, j := decode[trainer.ClusterTrainingRuntime](t, docs[0]), decode[trainer.TrainJob](t, docs[1])
	j.Spec.Trainer.Command = []string{"mpiup", "run", "-n", "2", "--watch", `step (?P<step>\d+) of (?P<of>\d+), loss (?P<loss>\S+)`,
		"sh", "-c", "echo step 3 of 4, loss 0.5; until [ -e /tmp/go-on ]; do sleep 0.1; done"}
	j.Namespace = ns
	l.submitted(r, j)
	const half = `{"progressPercentage":75,"metrics":[{"name":"loss","value":"0.5"},{"name":"of","value":"4"},{"name":"step","value":"3"}],"lastUpdatedTime":null}`
	l.eventually("the TrainJob says how far it is", func() bool { return l.status(j) == half })
	_, code, err := l.Exec(t.Context(), "pi-node-0-0", "touch", "/tmp/go-on") // where both ranks are
	must(t, err)
	if code != 0 {
		t.Fatalf("touch ended with %d", code)
	}
	l.trained(j)
	const whole = `{"progressPercentage":100,"estimatedRemainingSeconds":0,"metrics":[{"name":"loss","value":"0.5"},{"name":"of","value":"4"},{"name":"step","value":"3"},` +
		`{"name":"mpiup_verdict","value":"success"}],"lastUpdatedTime":null}`
	if got := l.status(j); got != whole {
		t.Errorf("at the end %s", got)
	}
	text, err := json.Marshal(j)
	must(t, err)
	kind := kinds["trainer.kubeflow.org/v1alpha1/TrainJob"]
	for _, e := range invalid(t, upstream(t, kind.module, kind.file), text) {
		t.Error(e)
	}
}

// Where ranks are beside the launcher they tell by themselves, here with the script of Trainer's own test, and mpiup leaves it to them.
func TestTrainJobStatusOfARank(t *testing.T) {
	t.Parallel()
	images := exampleImages(t)
	image := images["registry.example.com/pi:1"]
	script := filepath.Join(built, "status_update.py")
	must(t, os.WriteFile(script, upstream(t, "github.com/kubeflow/trainer/v2", "test/e2e/testdata/status_update.py"), 0o644))
	images["registry.example.com/pi:1"] = with(image, map[string]string{"/opt/status_update.py": script})
	l := newStatusServer(t, images).up(t)
	l.keygen()
	docs := example(t, "trainer-up.yaml")
	r, j := decode[trainer.ClusterTrainingRuntime](t, docs[0]), decode[trainer.TrainJob](t, docs[1])
	j.Spec.Trainer.Command = []string{"mpiup", "up", "-n", "2", "--watch", `step (?P<step>\d+)`, "sh", "-c",
		"[ $MPIUP_RANK != 0 ] || python3 /opt/status_update.py; echo step 3"}
	j.Namespace = ns
	l.submitted(r, j)
	l.eventually("the TrainJob is complete", func() bool { return l.complete(j) })
	const theirs = `{"progressPercentage":42,"estimatedRemainingSeconds":120,"metrics":[{"name":"loss","value":"0.123"},{"name":"accuracy","value":"0.95"}],"lastUpdatedTime":null}`
	if got := l.status(j); got != theirs {
		t.Errorf("it has %s", got)
	}
	if out := l.Output("pi-node-0-0"); !strings.Contains(out, "mpiup: how far the TrainJob is, is left to its ranks") {
		t.Errorf("it said\n%s", out)
	}
}
