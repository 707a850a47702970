package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/test/cost"
)

// table is what a policy allows, a line for each role that may start something.
func table(p *Policy) string {
	var lines []string
	for _, r := range roles {
		var names []string
		for k := range Kind(kinds) {
			if p.Check(k, identity.Peer{Role: r}) == nil {
				names = append(names, k.String())
			}
		}
		if names != nil {
			lines = append(lines, string(r)+": "+strings.Join(names, " "))
		}
	}
	return strings.Join(lines, "; ")
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
	}{
		{"one", "allow run launcher", "launcher: run"},
		{"lists", "allow run,exec launcher,agent\n", "launcher: run exec; agent: run exec"},
		{"everything", "allow * *", "launcher: run exec shell copy spawn look; agent: run exec shell copy spawn"},
		{"denied before", "deny exec,shell *\nallow * launcher", "launcher: run copy spawn look"},
		{"denied after", "allow * launcher\ndeny exec,shell *", "launcher: run copy spawn look"},
		{"denied to one role", "allow shell *\ndeny shell agent\n", "launcher: shell"},
		{"comments", "# all\n\n  allow\trun   launcher # ranks\r\n#deny run *\n", "launcher: run"},
		{"twice", "allow run launcher\nallow run launcher\n", "launcher: run"},
		{"agents only", "allow shell agent", "agent: shell"},
	} {
		p, err := Parse("f", tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if d := cmp.Diff(tt.want, table(p)); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
	}{
		{"two words", "allow run", "f, line 1: 2 words, and a rule has three; write for example: allow run,exec launcher"},
		{"four words", "allow run, exec launcher", "f, line 1: 4 words, and a rule has three; write for example: allow run,exec launcher"},
		{"verb", "# x\npermit run launcher", `f, line 2: "permit" is neither allow nor deny`},
		{"kind", "allow run launcher\n\nallow run,exce launcher", `f, line 3: "exce" is nothing that an agent starts; use run, exec, shell, copy, spawn, look or *`},
		{"no kind", "allow run, launcher", `f, line 1: "" is nothing that an agent starts; use run, exec, shell, copy, spawn, look or *`},
		{"role", "deny * root", `f, line 1: "root" is no role; use launcher, agent or *`},
		{"case", "allow Run launcher", `f, line 1: "Run" is nothing that an agent starts; use run, exec, shell, copy, spawn, look or *`},
		{"empty", "", "f: nobody could start anything; allow run to launchers at least"},
		{"only comments", "# allow run launcher\n", "f: nobody could start anything; allow run to launchers at least"},
		{"all is denied", "allow run launcher\ndeny * *\n", "f: nobody could start anything; allow run to launchers at least"},
		{"nothing by itself", "allow copy,spawn *", "f: nobody could start anything; allow run to launchers at least"},
		{"no text", "\xff\x00\x1b[2J x y", `f, line 1: "\xff\x00\x1b[2J" is neither allow nor deny`},
		{"too long", strings.Repeat("#", MaxFile+1), "f: a policy of more than 65536 bytes"},
	} {
		if _, err := Parse("f", tt.text); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(string) (*Policy, error)
		list string
		want string // of table, or the error
	}{
		{"allow", Allow, "run", "launcher: run"},
		{"allow two", Allow, "run, exec", "launcher: run exec"},
		{"allow a role", Allow, "*,shell:agent", "launcher: run exec shell copy spawn look; agent: shell"},
		{"deny", Deny, "exec,shell", "launcher: run copy spawn look"},
		{"deny a role", Deny, "exec:*", "launcher: run shell copy spawn look"},
		{"deny what it has not", Deny, "run:agent", "launcher: run exec shell copy spawn look"},
		{"deny everything", Deny, "*", "--deny *: nobody could start anything; allow run to launchers at least"},
		{"nothing", Deny, "", `--deny : "" is nothing that an agent starts; use run, exec, shell, copy, spawn, look or *`},
		{"a stray comma", Allow, "run,", `--allow run,: "" is nothing that an agent starts; use run, exec, shell, copy, spawn, look or *`},
		{"no role", Allow, "run:", `--allow run:: "" is no role; use launcher, agent or *`},
	} {
		p, err := tt.make(tt.list)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = table(p)
		}
		if got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

func TestCheck(t *testing.T) {
	file, err := Parse("/etc/mpiup/policy", "allow run,shell launcher\ndeny shell *  # no ssh\n")
	if err != nil {
		t.Fatal(err)
	}
	flag, err := Deny("exec,shell")
	if err != nil {
		t.Fatal(err)
	}
	launcher, agent := identity.Peer{Role: identity.RoleLauncher}, identity.Peer{Role: identity.RoleAgent}
	both := identity.Peer{Role: identity.RoleAgent, Also: identity.RoleLauncher}
	for _, tt := range []struct {
		name   string
		policy *Policy
		kind   Kind
		who    identity.Peer
		want   string // of the error; "": it may
	}{
		{"default", nil, Shell, launcher, ""},
		{"default, agent", nil, Run, agent, "the agent's policy refuses run to agents (the default, without --policy) and allows them nothing else; whoever starts the agent can change that"},
		{"default, both roles", nil, Run, both, ""},
		{"line", file, Shell, launcher, `the agent's policy refuses shell to launchers (line 2 of /etc/mpiup/policy, "deny shell *") and allows them run; whoever starts the agent can change that`},
		{"no line", file, Exec, launcher, "the agent's policy refuses exec to launchers (no line of /etc/mpiup/policy allows it) and allows them run; whoever starts the agent can change that"},
		{"allowed line", file, Run, launcher, ""},
		{"both roles", file, Run, both, ""},
		{"flag", flag, Exec, launcher, "the agent's policy refuses exec to launchers (--deny exec,shell) and allows them run, copy, spawn, look; whoever starts the agent can change that"},
		{"flag, agent", flag, Run, agent, "the agent's policy refuses run to agents (the default) and allows them nothing else; whoever starts the agent can change that"},
	} {
		err := tt.policy.Check(tt.kind, tt.who)
		if tt.want == "" && err == nil {
			continue
		}
		var r *Refusal
		if !errors.As(err, &r) || r.Kind != tt.kind || r.Error() != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestCallers(t *testing.T) {
	for text, want := range map[string]struct {
		callers []identity.Role
		says    string
	}{
		"allow run,copy launcher": {[]identity.Role{identity.RoleLauncher}, "launcher: run, copy; all else is refused (f)"},
		"allow shell *":           {[]identity.Role{identity.RoleLauncher, identity.RoleAgent}, "launcher: shell; agent: shell; all else is refused (f)"},
		"allow shell agent":       {[]identity.Role{identity.RoleLauncher, identity.RoleAgent}, "agent: shell; all else is refused (f)"},
	} {
		p, err := Parse("f", text)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.callers, p.Callers()); d != "" || p.String() != want.says {
			t.Errorf("%s: %s, %v", text, d, p)
		}
	}
	var none *Policy
	if d := cmp.Diff([]identity.Role{identity.RoleLauncher}, none.Callers()); d != "" || none.String() != "launcher: everything" {
		t.Errorf("%s, %v", d, none)
	}
}

// Whatever a file says: with one more line that denies something, nobody may more.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "allow run launcher", "# x\nallow * *\ndeny exec,shell *\n", "allow run,, launcher", "deny \xff", "allow run launcher extra"} {
		f.Add(text, "shell", "*")
	}
	f.Fuzz(func(t *testing.T, text, kind, role string) {
		defer cost.Watch(t, cost.Parser, len(text)+len(kind)+len(role))()
		if strings.Contains(kind+role, "\n") {
			return // more lines than one
		}
		p, err := Parse("f", text)
		if err != nil {
			if p, err := Parse("f", text+"\n# more"); err == nil {
				t.Errorf("a comment makes %q good: %v", text, p)
			}
			return
		}
		if table(p) == "" {
			t.Errorf("%q allows nothing", text)
		}
		less, err := Parse("f", text+"\ndeny "+kind+" "+role)
		if err != nil {
			return
		}
		for k := range Kind(kinds) {
			for _, r := range roles {
				who := identity.Peer{Role: r}
				if p.Check(k, who) != nil && less.Check(k, who) == nil {
					t.Errorf("%q with deny %q %q allows %v to %s", text, kind, role, k, r)
				}
			}
		}
	})
}
