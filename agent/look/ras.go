package look

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
)

// AskRAS asks NCCL's RAS service what it sees of a job. NCCL has it since 2.24, in a thread of each process; the first of a host
// listens at localhost:28028, or NCCL_RAS_ADDR (src/ras/client_support.cc of NCCL 2.24 to 2.29).
//
//	we:  CLIENT PROTOCOL 2 ⏎   TIMEOUT 1 ⏎   VERBOSE STATUS ⏎
//	it:  SERVER PROTOCOL 2 ⏎   OK ⏎          a page of text, and the end
//
// The page has a part Errors and a part Warnings, whose lines name ranks: one of which nothing was heard, or that has launched fewer
// operations. Only those lines are of use. Where they are empty nothing follows: the service has found nothing wrong while a
// watchdog timed out (NVIDIA/nccl#1730). Whoever shows them says where they are from, and blames nobody by them.
//
// AskRAS blocks until ctx ends at most, may be called by several goroutines, and takes the answer as a stranger's text.

// RASPort is the service's own.
const RASPort = 28028

// Bounds of an answer.
const (
	maxPage  = 1 << 20
	maxLines = 8
	maxLine  = 200
)

// RASAddress is where the service of a job listens, by its NCCL_RAS_ADDR. false: elsewhere than on this host.
func RASAddress(variable string) (netip.AddrPort, bool) {
	own := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), RASPort)
	if variable == "" {
		return own, true
	}
	if port, ok := strings.CutPrefix(variable, "localhost:"); ok {
		variable = "127.0.0.1:" + port
	}
	at, err := netip.ParseAddrPort(variable)
	return at, err == nil && at.Addr().IsLoopback()
}

// AskRAS is the lines in which the service at an address tells of ranks that are not as the others. trust looks at the connection once the
// other side has spoken: an error ends it.
func AskRAS(ctx context.Context, at netip.AddrPort, trust func(net.Conn) error) (lines []string, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	in := bufio.NewReader(io.LimitReader(c, maxPage))
	for _, s := range []struct{ say, want string }{{"CLIENT PROTOCOL 2\n", "SERVER PROTOCOL "}, {"TIMEOUT 1\n", "OK"}} {
		if _, err := io.WriteString(c, s.say); err != nil {
			return nil, err
		}
		answer, err := in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(string(answer), s.want) {
			return nil, fmt.Errorf("it answers %.40q", answer)
		}
		if trust != nil {
			if err := trust(c); err != nil {
				return nil, err
			}
			trust = nil
		}
	}
	if _, err := io.WriteString(c, "VERBOSE STATUS\n"); err != nil {
		return nil, err
	}
	page, err := io.ReadAll(in)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return nil, err
	}
	return toldByRAS(string(page)), nil
}

// toldByRAS is what the parts Errors and Warnings say, without blank lines, at most maxLines.
func toldByRAS(page string) (lines []string) {
	within := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case line == "Errors" || line == "Warnings":
			within = true
		case !within || line == "" || strings.Trim(line, "=") == "":
		case len(lines) == maxLines:
			return append(lines, "and more")
		default:
			lines = append(lines, visible.Line(line[:min(len(line), maxLine)]))
		}
	}
	return lines
}
