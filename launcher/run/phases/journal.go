package phases

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/run/model"
)

// Journal is a run as its launcher leaves it with its agents so that another one can take it over: which ranks are where, by which
// sessions, and what cannot be asked of the hosts again.
//
//	Journal ──Encode──▶ bytes, which the launcher signs ──▶ agents ──▶ the next launcher ──Decode──▶ Journal, checked
//
// It is JSON in one line:
//
//	{"format":1,"run":"16 hex digits","begun":"...","namespace":"mpiup-...","universe":8,
//	 "sites":[{"name":"w0","stated":"w0","slots":4,"given":true,"cpus":4,"address":"10.0.0.7:16748"}],
//	 "hosts":[{"site":0,"session":"32 hex digits","agent":"32 hex digits","meets":"10.0.0.7","version":"..."}],
//	 "ranks":[{"h":0,"l":0,"c":"0-1"},{"h":0,"a":1,"l":1}]}
//
// Sites are hosts that jobs may be placed on, hosts those that have ranks, in the order of the job's. It holds no secret: who takes a
// session over proves to the agent who he is. Programs and their variables come from the command line, which is the same.
//
// Bytes of an agent may be anybody's: Decode bounds them and checks each field. Whether a launcher of the job has written them, and
// when, is for who reads them to find out before.
type Journal struct {
	Format    int                 `json:"format"`
	Run       string              `json:"run"` // its id, in all its sessions
	Begun     time.Time           `json:"begun"`
	Namespace string              `json:"namespace"` // PMIx's name of the first job
	Restarts  int                 `json:"restarts,omitempty"`
	Left      time.Time           `json:"left,omitzero"`   // when Spent was so
	Spent     map[string][2]int64 `json:"spent,omitempty"` // where the ranks' time went, by cause (launcher/report.Account)
	Sites     []model.Site        `json:"sites"`
	Hosts     []Session           `json:"hosts"`
	Plan      *job.Plan           `json:"-"` // the hosts are those of Hosts. What they look like inside is not in a journal
}

// Session is what a launcher has of a host with ranks.
type Session struct {
	Site    int        `json:"site"`
	Session string     `json:"session"`
	Agent   string     `json:"agent"` // its incarnation
	Meets   netip.Addr `json:"meets,omitzero"`
	Version string     `json:"version,omitempty"`
}

// written is a journal with its plan as it is written.
type written struct {
	*Journal
	Universe int    `json:"universe"`
	Ranks    []seat `json:"ranks"`
}

// seat is one rank's place.
type seat struct {
	Host  int    `json:"h"`
	App   int    `json:"a,omitempty"`
	Local int    `json:"l,omitempty"`
	CPUs  string `json:"c,omitempty"`
}

// MaxJournal bounds a journal in bytes, as agents do.
const MaxJournal = 4 << 20

const (
	format    = 1
	maxHosts  = 1 << 16
	maxText   = 253 // bytes of a name
	maxSlots  = 1 << 20
	maxCauses = 32
)

// Encode is the journal as agents keep it.
func (j *Journal) Encode() ([]byte, error) {
	j.Format = format
	w := written{Journal: j, Universe: j.Plan.Universe}
	for _, p := range j.Plan.Placements {
		w.Ranks = append(w.Ranks, seat{Host: p.Host, App: p.App, Local: p.LocalRank, CPUs: p.CPUs.String()})
	}
	b, err := json.Marshal(w)
	if err == nil && len(b) > MaxJournal {
		err = fmt.Errorf("what another launcher needs of this run takes %d bytes, and agents keep %d", len(b), MaxJournal)
	}
	return b, err
}

// Decode reads a journal of a run of so many programs.
func Decode(b []byte, apps int) (*Journal, error) {
	if len(b) > MaxJournal {
		return nil, fmt.Errorf("a journal of %d bytes; %d are possible", len(b), MaxJournal)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	w := written{Journal: &Journal{}}
	if err := d.Decode(&w); err != nil {
		return nil, fmt.Errorf("a journal that cannot be read: %w", err)
	}
	if d.More() {
		return nil, errors.New("a journal with something behind it")
	}
	err := w.check()
	if err == nil {
		w.Plan, err = w.plan(apps)
	}
	if err != nil {
		return nil, fmt.Errorf("a journal that makes no sense: %w", err)
	}
	return w.Journal, nil
}

func (w *written) check() error {
	switch {
	case w.Format != format:
		return fmt.Errorf("format %d, and this mpiup reads %d", w.Format, format)
	case !isID(w.Run, 8):
		return errors.New("the run has no id")
	case len(w.Namespace) > maxText || strings.ContainsFunc(w.Namespace, func(c rune) bool { return c <= ' ' || c > '~' }):
		return errors.New("a namespace that is none")
	case w.Universe < 0 || w.Universe > maxSlots || w.Restarts < 0 || w.Restarts > job.MaxRestarts:
		return fmt.Errorf("%d slots, %d restarts", w.Universe, w.Restarts)
	case len(w.Spent) > maxCauses:
		return fmt.Errorf("%d causes", len(w.Spent))
	case len(w.Hosts) == 0 || len(w.Sites) < len(w.Hosts) || len(w.Sites) > maxHosts || len(w.Ranks) < len(w.Hosts) || len(w.Ranks) > maxSlots:
		return fmt.Errorf("%d ranks on %d of %d hosts", len(w.Ranks), len(w.Hosts), len(w.Sites))
	}
	names := map[string]bool{}
	for _, s := range w.Sites {
		if err := checkSite(s); err != nil {
			return err
		}
		if names[s.Name] {
			return fmt.Errorf("host %s is there twice", s.Name)
		}
		names[s.Name] = true
	}
	used := map[int]bool{}
	for i, h := range w.Hosts {
		if err := w.checkHost(h); err != nil {
			return fmt.Errorf("host %d: %w", i, err)
		}
		if used[h.Site] {
			return fmt.Errorf("host %s has ranks by two sessions", w.Sites[h.Site].Name)
		}
		used[h.Site] = true
	}
	return nil
}

func checkSite(s model.Site) error {
	if err := hostlist.CheckName(s.Name); err != nil {
		return err
	}
	if s.Stated != "" {
		if err := hostlist.CheckName(s.Stated); err != nil {
			return err
		}
	}
	if s.Slots < 0 || s.Slots > maxSlots || s.CPUs < 0 || s.CPUs > maxSlots {
		return fmt.Errorf("host %s: %d slots, %d CPUs", s.Name, s.Slots, s.CPUs)
	}
	return nil
}

func (w *written) checkHost(h Session) error {
	switch {
	case h.Site < 0 || h.Site >= len(w.Sites):
		return fmt.Errorf("site %d of %d", h.Site, len(w.Sites))
	case !w.Sites[h.Site].Address.IsValid():
		return errors.New("nobody knows where its agent is")
	case !isID(h.Session, 16) || !isID(h.Agent, 16):
		return errors.New("no session, or no agent")
	case len(h.Version) > maxText:
		return errors.New("a version that is none")
	}
	return nil
}

// plan is where the ranks are: each host has some, counted from 0 there in the order of the job's.
func (w *written) plan(apps int) (*job.Plan, error) {
	p := &job.Plan{Universe: w.Universe}
	for _, h := range w.Hosts {
		p.Hosts = append(p.Hosts, w.Sites[h.Site].Host)
	}
	local := make([]map[int]bool, len(w.Hosts))
	for i, r := range w.Ranks {
		if r.Host < 0 || r.Host >= len(w.Hosts) || r.App < 0 || r.App >= apps || r.Local < 0 || r.Local >= len(w.Ranks) {
			return nil, fmt.Errorf("rank %d: host %d, program %d, local rank %d", i, r.Host, r.App, r.Local)
		}
		if local[r.Host] == nil {
			local[r.Host] = map[int]bool{}
		}
		if local[r.Host][r.Local] {
			return nil, fmt.Errorf("rank %d: local rank %d is another's", i, r.Local)
		}
		local[r.Host][r.Local] = true
		cpus, err := idset.Within(r.CPUs, layout.MaxThreads)
		if err != nil {
			return nil, fmt.Errorf("rank %d: CPUs: %w", i, err)
		}
		p.Placements = append(p.Placements, job.Placement{Rank: job.Rank(i), App: r.App, Host: r.Host, LocalRank: r.Local, CPUs: cpus})
	}
	for i, l := range local {
		if len(l) == 0 {
			return nil, fmt.Errorf("host %s has no rank", p.Hosts[i].Name)
		}
	}
	return p, nil
}

// isID says that s is so many bytes in hex.
func isID(s string, n int) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == n
}
