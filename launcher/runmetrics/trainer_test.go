package runmetrics

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/launcher/verdict"
)

func TestStatusOf(t *testing.T) {
	long := strings.Repeat("x", maxMeasure+1)
	for _, tt := range []struct {
		name     string
		values   map[string]float64
		restarts int
		kind     string
		want     string // JSON without the time; "": nothing is told
	}{
		{"nothing was read", nil, 0, "", ""},
		{"a loss alone", map[string]float64{"loss": 0.25}, 0, "", `{"metrics":[{"name":"loss","value":"0.25"}]}`},
		{"halfway", map[string]float64{"step": 45, "of": 100, "rate": 2}, 0, "",
			`{"progressPercentage":45,"estimatedRemainingSeconds":28,"metrics":[{"name":"of","value":"100"},{"name":"rate","value":"2"},{"name":"step","value":"45"}]}`},
		{"beyond its end", map[string]float64{"step": 7, "of": 5}, 0, "", `{"metrics":[{"name":"of","value":"5"},{"name":"step","value":"7"}]}`},
		{"slow", map[string]float64{"step": 1, "of": 1e18, "rate": 1e-9}, 0, "",
			`{"progressPercentage":0,"estimatedRemainingSeconds":2147483647,"metrics":[{"name":"of","value":"1e+18"},{"name":"rate","value":"1e-09"},{"name":"step","value":"1"}]}`},
		{"a long name", map[string]float64{long: 1, "a": 1}, 2, "",
			`{"metrics":[{"name":"a","value":"1"},{"name":"mpiup_restarts","value":"2"}]}`},
		{"ended well", map[string]float64{"step": 45, "of": 100}, 0, success,
			`{"progressPercentage":100,"estimatedRemainingSeconds":0,"metrics":[{"name":"of","value":"100"},{"name":"step","value":"45"},{"name":"mpiup_verdict","value":"success"}]}`},
		{"failed", map[string]float64{"step": 45, "of": 100, "rate": 2}, 0, "killed",
			`{"progressPercentage":45,"metrics":[{"name":"of","value":"100"},{"name":"rate","value":"2"},{"name":"step","value":"45"},{"name":"mpiup_verdict","value":"killed"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, told := statusOf(tt.values, tt.restarts, tt.kind)
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Replace(string(text), `,"lastUpdatedTime":"0001-01-01T00:00:00Z"`, "", 1)
			if !told {
				got = ""
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A status goes out when there is news, each 5 s at most, and the last one after the run's end; a signal ends the wait for it.
func TestPaceOfTheStatus(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stalls bool // no news after 7 s
		signal bool // 1 s after the end
		want   []string
		took   time.Duration // from the end on
	}{
		{"news", false, false, []string{"5s 5", "10s 10", "15s 11 killed"}, 4 * time.Second},
		{"no more news", true, false, []string{"5s 5", "10s 7", "15s 7 killed"}, 4 * time.Second},
		{"a signal", false, true, []string{"5s 5", "10s 10"}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, m := time.Now(), New("v1")
				at := func() time.Duration { return time.Since(begun).Round(time.Second) }
				m.Progress(func() map[string]float64 {
					n := at().Seconds()
					if tt.stalls {
						n = min(n, 7)
					}
					return map[string]float64{"step": min(n, 11)}
				})
				var got []string
				teller := newTeller(m, Trainer{}, t.Errorf)
				teller.send = func(_ context.Context, s trainerStatus) error {
					teller.posts++
					line := fmt.Sprint(at(), " ", s.Metrics[slices.IndexFunc(s.Metrics, func(m measure) bool { return m.Name == "step" })].Value)
					if i := slices.IndexFunc(s.Metrics, func(m measure) bool { return m.Name == "mpiup_verdict" }); i >= 0 {
						line += " " + s.Metrics[i].Value
					}
					got = append(got, line)
					return nil
				}
				stop := teller.start()
				time.Sleep(11 * time.Second)
				m.Ended(&verdict.Verdict{Kind: verdict.Killed}, nil)
				signals := make(chan os.Signal, 1)
				if tt.signal {
					time.AfterFunc(time.Second, func() { signals <- syscall.SIGTERM })
				}
				ended := time.Now()
				m.Linger(signals, t.Errorf)
				if took := time.Since(ended); took != tt.took {
					t.Errorf("the end took %v, want %v", took, tt.took)
				}
				stop()
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// A run of which nothing was told, or that did not begin, waits for nobody.
func TestNothingToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, begun := New("v1"), time.Now()
		defer m.Tell(Trainer{}, t.Errorf)()
		m.Ended(nil, nil)
		m.Linger(nil, t.Errorf)
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// service is a server of statuses with its files.
type service struct {
	*httptest.Server
	Trainer
	bodies  []string
	tokens  []string
	answers func(http.ResponseWriter)
}

func serve(t *testing.T) *service {
	t.Helper()
	s := &service{answers: func(http.ResponseWriter) {}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.bodies, s.tokens = append(s.bodies, string(body)), append(s.tokens, r.Header.Get("Authorization"))
		s.answers(w)
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	s.Trainer = Trainer{URL: s.Server.URL + "/apis/x/status", CA: filepath.Join(dir, "ca.crt"), Token: filepath.Join(dir, "token")}
	write(t, s.CA, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	write(t, s.Token, "first\n")
	return s
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tell tells once for each set of values, and gives what was said.
func (s *service) tell(t *testing.T, change func(*teller), values ...map[string]float64) (said []string) {
	t.Helper()
	m := New("v1")
	tell := newTeller(m, s.Trainer, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	change(tell)
	for i, v := range values {
		m.Progress(func() map[string]float64 { return maps.Clone(v) })
		tell.tell(t.Context())
		if i == 0 {
			write(t, s.Token, "second")
		}
	}
	return said
}

// The token is read for each POST, what was told is not told again, and the server's certificate has to be of the signer's.
func TestPost(t *testing.T) {
	s := serve(t)
	one, two := map[string]float64{"step": 1}, map[string]float64{"step": 2}
	if said := s.tell(t, func(*teller) {}, one, one, two); said != nil {
		t.Errorf("said %q", said)
	}
	if want := []string{"Bearer first", "Bearer second"}; !slices.Equal(s.tokens, want) {
		t.Errorf("tokens %q, want %q", s.tokens, want)
	}
	if len(s.bodies) != 2 || !strings.HasPrefix(s.bodies[1], `{"trainerStatus":{"metrics":[{"name":"step","value":"2"}],"lastUpdatedTime":"2`) {
		t.Errorf("%q", s.bodies)
	}
	write(t, s.CA, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: serve(t).Certificate().Raw})))
	s.bodies = nil
	said := s.tell(t, func(k *teller) { k.to.URL = strings.Replace(k.to.URL, "127.0.0.1", "localhost", 1) }, one)
	if len(said) != 1 || !strings.Contains(said[0], "certificate") || s.bodies != nil {
		t.Errorf("%q %q", said, s.bodies)
	}
}

// What goes wrong is said once, with who answered what, and no secret; the token goes nowhere else.
func TestPostFails(t *testing.T) {
	elsewhere := serve(t)
	for _, tt := range []struct {
		name  string
		setUp func(*service)
		says  string
	}{
		{"forbidden", func(s *service) {
			s.answers = func(w http.ResponseWriter) {
				w.WriteHeader(403)
				_, _ = io.WriteString(w, `{"message":"Forbid\u001b[31mden"}`)
			}
		}, `answers 403 Forbidden: "Forbid\x1b[31mden"`},
		{"another server", func(s *service) {
			s.answers = func(w http.ResponseWriter) {
				w.Header().Set("Location", elsewhere.Server.URL)
				w.WriteHeader(307)
			}
		}, "answers 307"},
		{"endless", func(s *service) {
			s.answers = func(w http.ResponseWriter) {
				w.WriteHeader(500)
				_, _ = io.CopyN(w, zeros{}, 32<<20)
			}
		}, "answers 500 Internal Server Error"},
		{"no token", func(s *service) { _ = os.Remove(s.Token) }, trainerToken},
		{"no certificate", func(s *service) { s.CA = s.Token }, "holds no certificate"},
		{"in the clear", func(s *service) { s.Trainer.URL = "http://127.0.0.1/" }, "no https address"},
		{"a port of letters", func(s *service) { s.Trainer.URL = "https://127.0.0.1:http/" }, "no https address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t)
			tt.setUp(s)
			said := s.tell(t, func(k *teller) { k.to = s.Trainer }, map[string]float64{"step": 1}, map[string]float64{"step": 2})
			if len(said) != 1 || !strings.Contains(said[0], tt.says) || !strings.Contains(said[0], "the run goes on") || strings.Contains(said[0], "first") {
				t.Errorf("said %q", said)
			}
		})
	}
	if len(elsewhere.bodies) > 0 {
		t.Error("the status went to another server")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// All three variables are needed. Ranks beside the launcher have them too, and tell by themselves, unless that is switched off.
func TestTrainerOf(t *testing.T) {
	all := []string{trainerURL + "=https://s", trainerCA + "=/ca", trainerToken + "=/token"}
	for _, tt := range []struct {
		name   string
		env    []string
		beside bool
		told   bool
		said   int
	}{
		{"elsewhere", all, false, true, 0},
		{"beside the ranks", all, true, false, 1},
		{"beside ranks that do not tell", append([]string{itself + "=TRUE"}, all...), true, true, 0},
		{"beside ranks that may", append([]string{itself + "=FALSE"}, all...), true, false, 1},
		{"no token", all[:2], true, false, 0},
		{"nothing", nil, false, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := 0
			got, told := TrainerOf(environ(tt.env...), tt.beside, func(string, ...any) { said++ })
			if told != tt.told || said != tt.said || told && got != (Trainer{"https://s", "/ca", "/token"}) {
				t.Errorf("%+v %v, said %d", got, told, said)
			}
		})
	}
}
