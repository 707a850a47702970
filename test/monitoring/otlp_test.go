package monitoring

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// traced runs two ranks on two agents, which say what they were told of the trace, with these variables. The one that fails does not end the other
// before it has begun.
func traced(t *testing.T, env ...string) lab.Result {
	t.Helper()
	need.File(t, "otel", filepath.Join(filepath.Dir(bin), "mpiup-otel"), "make build")
	var hosts []string
	for range 2 {
		hosts = append(hosts, lab.NewLoopback(t, bin, []string{"MPIUP_KEY=" + key}).Addr)
	}
	cmd := exec.Command(bin, "run", "--key", key, "--host", strings.Join(hosts, ","), "--ppn", "1", "--independent", "sh", "-c", `echo "rank $MPIUP_RANK: $TRACEPARENT"; exit $MPIUP_RANK`, "--password=hunter2hunter2")
	cmd.Env = append(env, "PATH=/usr/bin:/bin", "MPIUP_REPORTS="+t.TempDir())
	return lab.Run(t, lab.Bound, cmd)
}

// The spans of a run are below the launcher's TRACEPARENT, and each rank's own names its span.
func TestSpansAreSent(t *testing.T) {
	var turn sync.Mutex
	var spans []string // id, parent's and name
	var all strings.Builder
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		text, err := io.ReadAll(body)
		var m collectortrace.ExportTraceServiceRequest
		if r.URL.Path == "/v1/traces" && err == nil {
			err = proto.Unmarshal(text, &m)
		}
		if err != nil {
			t.Error(err)
		}
		turn.Lock()
		defer turn.Unlock()
		fmt.Fprintln(&all, r.URL.Path, m.String())
		for _, r := range m.ResourceSpans {
			for _, sc := range r.ScopeSpans {
				for _, s := range sc.Spans {
					spans = append(spans, fmt.Sprintf("%x-%x<%x %s", s.TraceId, s.SpanId, s.ParentSpanId, s.Name))
				}
			}
		}
	}))
	defer s.Close()
	const parent = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	r := traced(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL, "TRACEPARENT=00-"+parent+"-01")
	if r.Code != 1 || strings.Contains(r.Stderr, "was not sent") {
		t.Fatalf("%d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	for _, m := range regexp.MustCompile(`rank \d: 00-(\S+)-01\n`).FindAllStringSubmatch(r.Stdout, -1) {
		if !slices.ContainsFunc(spans, func(s string) bool { return strings.HasPrefix(s, m[1]+"<") && strings.HasSuffix(s, " rank") }) {
			t.Errorf("no span %s", m[1])
		}
	}
	id, span, _ := strings.Cut(parent, "-")
	count := func(begin, end string) (n int) {
		for _, s := range spans {
			if strings.HasPrefix(s, begin) && strings.HasSuffix(s, end) {
				n++
			}
		}
		return n
	}
	if count(id, " rank") != 2 || count(id, "<"+span+" mpiup run") != 1 || count(id, " attempt") != 1 || count(id, "") != len(spans) || !strings.Contains(all.String(), "/v1/metrics") {
		t.Errorf("spans %q", spans)
	}
	if strings.Contains(all.String(), "hunter2") {
		t.Errorf("a secret was sent: %s", all.String())
	}
	if t.Failed() {
		t.Log(r.Stdout, r.Stderr, all.String())
	}
}

// An endpoint that takes connections and says nothing costs two seconds and a line.
func TestEndpointThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begun := time.Now()
	r := traced(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+l.Addr().String())
	if r.Code != 1 || strings.Count(r.Stderr, "was not sent by OTLP") != 1 {
		t.Errorf("%d after %v\n%s", r.Code, time.Since(begun), r.Stderr)
	}
}
