// Package journal is what a launcher leaves with its agents so that another one can take its run over: which ranks are where, by which
// sessions, and what cannot be asked of the hosts again. PURE.
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
package journal

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
)

// MaxSize bounds a journal in bytes, as agents do.
const MaxSize = 4 << 20

const (
	format   = 1
	maxHosts = 1 << 16
	maxText  = 253 // bytes of a name
	maxSlots = 1 << 20
)

// Journal is a run whose ranks all run.
type Journal struct {
	Format    int       `json:"format"`
	Run       string    `json:"run"` // its id, in all its sessions
	Begun     time.Time `json:"begun"`
	Namespace string    `json:"namespace"` // PMIx's name of the first job
	Universe  int       `json:"universe"`
	Restarts  int       `json:"restarts,omitempty"` // how often its ranks were started again
	Sites     []Site    `json:"sites"`
	Hosts     []Host    `json:"hosts"`
	Ranks     []Rank    `json:"ranks"`
}

// Site is a host that jobs may be placed on.
type Site struct {
	Name    string         `json:"name"`
	Stated  string         `json:"stated,omitempty"` // by its agent
	Slots   int            `json:"slots"`
	Given   bool           `json:"given,omitempty"`
	CPUs    int            `json:"cpus,omitempty"`
	Address netip.AddrPort `json:"address,omitzero"` // of its agent; zero: not known
}

// Host is a host with ranks.
type Host struct {
	Site    int        `json:"site"`
	Session string     `json:"session"`
	Agent   string     `json:"agent"` // its incarnation
	Meets   netip.Addr `json:"meets,omitzero"`
	Version string     `json:"version,omitempty"`
}

// Rank is one rank's place.
type Rank struct {
	Host  int    `json:"h"`
	App   int    `json:"a,omitempty"`
	Local int    `json:"l,omitempty"`
	CPUs  string `json:"c,omitempty"`
}

// Encode is the journal as agents keep it.
func (j *Journal) Encode() ([]byte, error) {
	j.Format = format
	b, err := json.Marshal(j)
	if err == nil && len(b) > MaxSize {
		err = fmt.Errorf("what another launcher needs of this run takes %d bytes, and agents keep %d", len(b), MaxSize)
	}
	return b, err
}

// Decode reads a journal of a run of so many programs.
func Decode(b []byte, apps int) (*Journal, error) {
	if len(b) > MaxSize {
		return nil, fmt.Errorf("a journal of %d bytes; %d are possible", len(b), MaxSize)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	j := &Journal{}
	if err := d.Decode(j); err != nil {
		return nil, fmt.Errorf("a journal that cannot be read: %w", err)
	}
	if d.More() {
		return nil, errors.New("a journal with something behind it")
	}
	if err := j.check(apps); err != nil {
		return nil, fmt.Errorf("a journal that makes no sense: %w", err)
	}
	return j, nil
}

func (j *Journal) check(apps int) error {
	switch {
	case j.Format != format:
		return fmt.Errorf("format %d, and this mpiup reads %d", j.Format, format)
	case !isID(j.Run, 8):
		return errors.New("the run has no id")
	case len(j.Namespace) > maxText || strings.ContainsFunc(j.Namespace, func(c rune) bool { return c <= ' ' || c > '~' }):
		return errors.New("a namespace that is none")
	case j.Universe < 0 || j.Universe > maxSlots || j.Restarts < 0 || j.Restarts > job.MaxRestarts:
		return fmt.Errorf("%d slots, %d restarts", j.Universe, j.Restarts)
	case len(j.Hosts) == 0 || len(j.Sites) < len(j.Hosts) || len(j.Sites) > maxHosts || len(j.Ranks) < len(j.Hosts) || len(j.Ranks) > maxSlots:
		return fmt.Errorf("%d ranks on %d of %d hosts", len(j.Ranks), len(j.Hosts), len(j.Sites))
	}
	names := map[string]bool{}
	for _, s := range j.Sites {
		if err := s.check(); err != nil {
			return err
		}
		if names[s.Name] {
			return fmt.Errorf("host %s is there twice", s.Name)
		}
		names[s.Name] = true
	}
	used := map[int]bool{}
	for i, h := range j.Hosts {
		if err := j.checkHost(h); err != nil {
			return fmt.Errorf("host %d: %w", i, err)
		}
		if used[h.Site] {
			return fmt.Errorf("host %s has ranks by two sessions", j.Sites[h.Site].Name)
		}
		used[h.Site] = true
	}
	return j.checkRanks(apps)
}

func (s *Site) check() error {
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

func (j *Journal) checkHost(h Host) error {
	switch {
	case h.Site < 0 || h.Site >= len(j.Sites):
		return fmt.Errorf("site %d of %d", h.Site, len(j.Sites))
	case !j.Sites[h.Site].Address.IsValid():
		return errors.New("nobody knows where its agent is")
	case !isID(h.Session, 16) || !isID(h.Agent, 16):
		return errors.New("no session, or no agent")
	case len(h.Version) > maxText:
		return errors.New("a version that is none")
	}
	return nil
}

// checkRanks: each host has ranks, counted from 0 there in the order of the job's.
func (j *Journal) checkRanks(apps int) error {
	local := make([]map[int]bool, len(j.Hosts))
	for i, r := range j.Ranks {
		if r.Host < 0 || r.Host >= len(j.Hosts) || r.App < 0 || r.App >= apps || r.Local < 0 || r.Local >= len(j.Ranks) {
			return fmt.Errorf("rank %d: host %d, program %d, local rank %d", i, r.Host, r.App, r.Local)
		}
		if local[r.Host] == nil {
			local[r.Host] = map[int]bool{}
		}
		if local[r.Host][r.Local] {
			return fmt.Errorf("rank %d: local rank %d is another's", i, r.Local)
		}
		local[r.Host][r.Local] = true
		if _, err := idset.Within(r.CPUs, layout.MaxThreads); err != nil {
			return fmt.Errorf("rank %d: CPUs: %w", i, err)
		}
	}
	for i, l := range local {
		if len(l) == 0 {
			return fmt.Errorf("host %s has no rank", j.Sites[j.Hosts[i].Site].Name)
		}
	}
	return nil
}

// isID says that s is so many bytes in hex.
func isID(s string, n int) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == n
}

// Plan is where the ranks are. What hosts look like inside is not in a journal.
func (j *Journal) Plan() *job.Plan {
	p := &job.Plan{Universe: j.Universe}
	for _, h := range j.Hosts {
		s := j.Sites[h.Site]
		p.Hosts = append(p.Hosts, s.host())
	}
	for i, r := range j.Ranks {
		cpus, _ := idset.Within(r.CPUs, layout.MaxThreads) // checked
		p.Placements = append(p.Placements, job.Placement{Rank: job.Rank(i), App: r.App, Host: r.Host, LocalRank: r.Local, CPUs: cpus})
	}
	return p
}

func (s *Site) host() job.Host {
	return job.Host{Name: s.Name, Slots: s.Slots, SlotsGiven: s.Given, CPUs: s.CPUs}
}
