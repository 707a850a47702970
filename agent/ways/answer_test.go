package ways

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/port"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/deadmount"
	"github.com/mpiup/mpiup/topology/sysfs"
)

func newSurvey(t *testing.T) *Survey {
	t.Helper()
	env := []string{"PATH=/usr/bin:/bin"}
	return New(Config{Hello: func() *apiv1.HelloReply { return &apiv1.HelloReply{} }, Env: env, Dir: "/",
		Host: host.New(host.Config{Env: env, Log: slog.New(slog.DiscardHandler)}), Libs: mpilib.NewMemory(os.DirFS("/")),
		Address: func() netip.Addr { return port.Advertise(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)).Addr() }})
}

// An agent holds ports only while a launcher listens, however often it is asked, and on its own address alone.
func TestAnswersWhileItIsAskedTo(t *testing.T) {
	a := newSurvey(t)
	fsys := sysfs.Host()
	choice, _, err := chooseAsked(rdma.Read(fsys, rdma.Config{Addresses: host.Addresses}), "", "")
	if err != nil {
		t.Fatal(err)
	}
	where := a.answerAt(choice)
	own := where[0]
	l, err := net.Listen("tcp", netip.AddrPortFrom(own, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	only := netip.MustParseAddrPort(l.Addr().String())
	request := &apiv1.AnswerRequest{Token: make([]byte, 16), MpiPorts: job.Ports{Low: only.Port(), High: only.Port()}.String()}
	never := func(r *apiv1.AnswerReply) error {
		t.Errorf("a port that another has is answered at: %v", r.Addresses)
		return nil
	}
	if err := a.Answer(t.Context(), request, never); err == nil || !strings.Contains(err.Error(), "no port of "+request.MpiPorts+" is free") {
		t.Errorf("a taken port: %v", err)
	}
	l.Close()
	for range maxAnswers + 1 {
		ctx, cancel := context.WithCancel(t.Context())
		err := a.Answer(ctx, request, func(r *apiv1.AnswerReply) error {
			if len(r.Addresses) != len(where) || r.Addresses[0] != only.String() {
				t.Errorf("answers at %v, not at %v", r.Addresses, only)
			}
			cancel()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err = net.Listen("tcp", only.String())
	if err != nil {
		t.Fatalf("the port is still held: %v", err)
	}
	l.Close()
}

// A dead mount on PATH is left out of the search for benchmarks and named; without that the search would not end.
func TestDeadDirectoriesOfASearch(t *testing.T) {
	dead, alive := deadmount.New(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(alive, "osu_bw"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	reply := &apiv1.CheckupReply{}
	newSurvey(t).findPrograms(reply, &apiv1.CheckupRequest{Programs: []string{"osu_bw"}, LookIn: []string{dead, alive}}, &checkup.Host{})
	if len(reply.Findings) != 1 || !strings.HasPrefix(reply.Findings[0].Text, dead+" was left out") || len(reply.Programs) != 1 || reply.Programs[0].Path != filepath.Join(alive, "osu_bw") {
		t.Errorf("%v", reply)
	}
}
