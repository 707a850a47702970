package runmetrics

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/progress"
)

// Trainer is where a TrainJob's status goes (KEP-2779): what Kubeflow Trainer tells the containers of a step, where its gate TrainJobStatus
// is on.
type Trainer struct {
	URL   string // https
	CA    string // file of who signs that server's certificate
	Token string // file; what it holds is good for an hour at most and for nothing else
}

// The variables of KEP-2779.
const (
	trainerURL   = "KUBEFLOW_TRAINER_SERVER_URL"
	trainerCA    = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
	trainerToken = "KUBEFLOW_TRAINER_SERVER_TOKEN"
)

// itself is Transformers' own switch: TRUE lets its ranks tell nothing (transformers/integrations/integration_utils.py).
const itself = "DISABLE_KUBEFLOW_INTEGRATION"

// TrainerOf is what the environment tells; false: nothing, not all, or it is for others to tell. beside: ranks run beside the launcher and have
// the variables too, so that a library may tell by itself, as Transformers' does. Nobody can see whether one does: such connections are short
// and leave nothing. So it is left to them, which say is told, unless they are switched off.
func TrainerOf(getenv func(string) string, beside bool, say func(format string, args ...any)) (Trainer, bool) {
	t := Trainer{URL: getenv(trainerURL), CA: getenv(trainerCA), Token: getenv(trainerToken)}
	if t.URL == "" || t.CA == "" || t.Token == "" {
		return t, false
	}
	if beside && !strings.EqualFold(getenv(itself), "true") {
		say("how far the TrainJob is, is left to its ranks, which have Trainer's variables; %s=TRUE lets mpiup tell it, and not Transformers", itself)
		return t, false
	}
	return t, true
}

const (
	tellEvery   = 5 * time.Second // at most, says the KEP
	tellBound   = 4 * time.Second // of one POST: less, so that they do not queue
	maxSecret   = 64 << 10        // bytes of a token and of certificates
	maxMeasures = 256             // of a status, says its schema
	maxMeasure  = 64              // bytes of a name and of a value, says its schema
)

// status is the body of a POST, as trainer.kubeflow.org/v1alpha1 has it in UpdateTrainJobStatusRequest.
type status struct {
	Trainer trainerStatus `json:"trainerStatus"`
}

type trainerStatus struct {
	Percent *int32    `json:"progressPercentage,omitempty"`
	Left    *int32    `json:"estimatedRemainingSeconds,omitempty"`
	Metrics []measure `json:"metrics,omitempty"`
	At      time.Time `json:"lastUpdatedTime"`
}

type measure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// statusOf is what --watch has read, the verdict once there is one, and restarts; false while nothing was read.
func statusOf(values map[string]float64, restarts int, kind string) (s trainerStatus, told bool) {
	if len(values) == 0 {
		return s, false
	}
	of, step := values[progress.Of], values[progress.Step]
	switch {
	case kind == success:
		s.Percent, s.Left = ptr(100), ptr(0)
	case of > 0 && step >= 0 && step <= of:
		s.Percent = ptr(100 * step / of)
		if rate := values[progress.Rate]; rate > 0 && kind == "" {
			s.Left = ptr(math.Round((of - step) / rate))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		s.Metrics = append(s.Metrics, measure{name, strconv.FormatFloat(values[name], 'g', 6, 64)})
	}
	if restarts > 0 {
		s.Metrics = append(s.Metrics, measure{"mpiup_restarts", strconv.Itoa(restarts)})
	}
	if kind != "" {
		s.Metrics = append(s.Metrics, measure{"mpiup_verdict", kind})
	}
	s.Metrics = slices.DeleteFunc(s.Metrics, func(m measure) bool { return m.Name == "" || len(m.Name) > maxMeasure || len(m.Value) > maxMeasure })
	s.Metrics = s.Metrics[:min(len(s.Metrics), maxMeasures)]
	return s, true
}

func ptr(v float64) *int32 {
	n := int32(min(v, math.MaxInt32))
	return &n
}

// teller tells Trainer how far the run is. Its goroutine is run's; over and told are closed once.
type teller struct {
	to   Trainer
	m    *Metrics
	say  func(format string, args ...any)
	over chan struct{} // the run has ended: what is told now is the last
	told chan struct{} // and was told, or is not to be

	// The rest is run's.
	send   func(context.Context, trainerStatus) error // post, but in tests
	sent   trainerStatus
	posts  int
	failed bool // said
}

// Tell posts what --watch reads to Trainer, until stop is called. It says in one line what keeps it from that, and no run waits for it: but
// its last word, for tellEvery at most (Linger).
func (m *Metrics) Tell(to Trainer, say func(format string, args ...any)) (stop func()) {
	return newTeller(m, to, say).start()
}

func newTeller(m *Metrics, to Trainer, say func(format string, args ...any)) *teller {
	t := &teller{to: to, m: m, say: say, over: make(chan struct{}), told: make(chan struct{})}
	t.send = t.post
	return t
}

func (t *teller) start() (stop func()) {
	t.m.mu.Lock()
	t.m.out.teller = t
	t.m.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { t.run(ctx) })
	return func() {
		cancel()
		done.Wait()
	}
}

func (t *teller) run(ctx context.Context) {
	defer close(t.told)
	next := time.NewTicker(tellEvery)
	defer next.Stop()
	over := t.over
	for last := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-over:
			last, over = true, nil
			if t.posts > 0 {
				continue // not before the pause is over
			}
		case <-next.C:
		}
		next.Reset(tellEvery)
		t.tell(ctx)
		if last {
			return
		}
	}
}

// tell posts what is new.
func (t *teller) tell(ctx context.Context) {
	s, told := t.m.status()
	if !told || reflect.DeepEqual(s, t.sent) {
		return
	}
	ctx, cancel := awake.Within(ctx, tellBound)
	defer cancel()
	err := t.send(ctx, s)
	switch {
	case err == nil:
		t.sent = s
	case !t.failed:
		t.failed = true
		t.say("the TrainJob's status was not told: %v; the run goes on, and the next try is in %v", err, tellEvery)
	}
}

// post sends one status. Token and certificates are read each time: both are renewed while a run goes on.
func (t *teller) post(ctx context.Context, s trainerStatus) error {
	at, err := url.Parse(t.to.URL)
	if err != nil || at.Scheme != "https" || at.Hostname() == "" {
		return fmt.Errorf("%s is %s, which is no https address", trainerURL, visible.Clip(secret.MaskText(t.to.URL)))
	}
	token, err := bounded.File(t.to.Token, maxSecret)
	if err != nil {
		return fmt.Errorf("%s: %w", trainerToken, err)
	}
	signers, err := bounded.File(t.to.CA, maxSecret)
	if err != nil {
		return fmt.Errorf("%s: %w", trainerCA, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(signers) {
		return fmt.Errorf("%s: %s holds no certificate", trainerCA, visible.Path(t.to.CA))
	}
	s.At = time.Now().UTC().Truncate(time.Second)
	body, err := json.Marshal(status{s})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.to.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", trainerURL, err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", "application/json")
	t.posts++
	client := http.Client{ // no proxy, no other address: the token is for this server
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("%s: %w", trainerURL, err)
	}
	defer answer.Body.Close()
	text, _ := bounded.Read(answer.Body, 4<<10) // for the sentence alone
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxSecret))
	if answer.StatusCode/100 == 2 {
		return nil
	}
	var why struct{ Message string }
	_ = json.Unmarshal(text, &why) // of Kubernetes' own form, or none
	said := ""
	if why.Message != "" {
		said = ": " + visible.Clip(why.Message)
	}
	return fmt.Errorf("%s answers %d %s%s", at.Host, answer.StatusCode, http.StatusText(answer.StatusCode), said)
}

// status is what is to be told now.
func (m *Metrics) status() (trainerStatus, bool) {
	m.mu.Lock()
	values, restarts, kind := m.values, m.out.again, m.out.kind
	m.mu.Unlock()
	if values == nil {
		return trainerStatus{}, false
	}
	return statusOf(values(), restarts, kind)
}

// lastWord waits until the end was told, a signal comes, or what the last POST may take is over.
func (t *teller) lastWord(signals <-chan os.Signal) {
	close(t.over)
	late := make(chan struct{})
	defer awake.After(tellEvery+tellBound, func() { close(late) })()
	for {
		select {
		case <-t.told:
			return
		case <-late:
			return
		case s := <-signals:
			if sig, ok := s.(syscall.Signal); ok && job.EndsWaiting(int(sig)) {
				return
			}
		}
	}
}
