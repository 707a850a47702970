package ssh

import (
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestIdentityFiles(t *testing.T) {
	const text = "# keys\nIdentityFile ~/.ssh/first\nHost w* !w9\n\tidentityfile=\"/a b/key\"\nHost *\nIdentityFile %d/.ssh/all # of all\n" +
		"Match host w1\nIdentityFile /matched\nMatch all\nIdentityFile /last\nIdentityFile \"open\n"
	for _, tt := range []struct{ host, want string }{
		{"", "~/.ssh/first %d/.ssh/all /last"}, {"W1", "~/.ssh/first /a b/key %d/.ssh/all /last"}, {"w9", "~/.ssh/first %d/.ssh/all /last"},
	} {
		if got := strings.Join(IdentityFiles(text, tt.host), " "); got != tt.want {
			t.Errorf("for %q: %s, want %s", tt.host, got, tt.want)
		}
	}
}

// The first AuthorizedKeysFile counts, a -o before the file's, and what is for some users only does not.
func TestServer(t *testing.T) {
	const text = "HostKey /k1\nHostKey /k2\nAuthorizedKeysFile  a b # two\nAuthorizedKeysFile c\nMatch User x\nHostKey /k3\n"
	for _, tt := range []struct{ option, keys string }{{"", "a b"}, {"authorizedkeysfile=/o", "/o"}, {"AuthorizedKeysFile %h/o", "%h/o"}} {
		var s Server
		s.Read(tt.option)
		s.Read(text)
		if got := strings.Join(s.AuthorizedKeys, " "); got != tt.keys || !slices.Equal(s.HostKeys, []string{"/k1", "/k2"}) {
			t.Errorf("after -o %q: %s, %q", tt.option, got, s.HostKeys)
		}
	}
}

func TestPath(t *testing.T) {
	for file, want := range map[string]string{
		"~/.ssh/id": "/h/.ssh/id", "%h/x": "/h/x", "%d/%u": "/h/me", "/a%%b": "/a%b", "rel": "/below/rel", "/a/../b": "/b", "none": "", "": "", "%i/x": "", "a%": "",
	} {
		if got, ok := Path(file, "/h", "me", "/below"); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v, want %q", file, got, ok, want)
		}
	}
	if got, ok := Path("rel", "", "", ""); ok {
		t.Errorf("below nothing: %q", got)
	}
}

func FuzzConfiguration(f *testing.F) {
	f.Add("Host *\nIdentityFile '/root'/.ssh/id_rsa\nHostKey=\"a\" # x\nAuthorizedKeysFile %h/a ~/b\n", "w0")
	f.Fuzz(func(t *testing.T, text, host string) {
		defer cost.Watch(t, cost.Parser, len(text)+len(host))()
		var s Server
		s.Read(text)
		files := append(append(IdentityFiles(text, host), s.HostKeys...), s.AuthorizedKeys...)
		if len(files) > 64+16+16 {
			t.Errorf("%d files", len(files))
		}
		for _, file := range files {
			if p, ok := Path(file, "/h", "me", "/b"); ok && !strings.HasPrefix(p, "/") {
				t.Errorf("%q is %q", file, p)
			}
		}
	})
}

func TestParseKeygen(t *testing.T) {
	for line, want := range map[string]Keygen{
		"-A":                            {All: true},
		"-A -f /prefix -q":              {All: true, File: "/prefix", Quiet: true},
		"-t rsa -b 4096 -N  -f k -q":    {Kind: "rsa", Bits: 4096, File: "k", Quiet: true},
		"-tECDSA -fk -C  -N ":           {Kind: "ecdsa", File: "k", HasC: true},
		"-N  -o -a 100 -f k -C me@here": {Kind: "ed25519", File: "k", Comment: "me@here", HasC: true},
		"-y -f k":                       {Show: 'y', File: "k"},
		"-lf k":                         {Show: 'l', File: "k"},
		"-f hosts -R [w0]:2222":         {Forget: "[w0]:2222", File: "hosts"},
	} {
		if got, err := ParseKeygen(strings.Split(line, " ")); err != nil || got != want {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
	}
	for line, want := range map[string]string{
		"-q":                     "write -f FILE",
		"-t rsa -f k":            "write -N ''",
		"-t rsa -N secret -f k":  "without a passphrase",
		"-t rsa -b many -f k":    "no number of bits",
		"-f k -N":                "needs a value",
		"-f k -N  more":          `"more" is not an option`,
		"-R ":                    "-R needs a host",
		"-y -l -f k":             "write one",
		"-y":                     "write -f FILE",
		"-F host":                "-F searches known_hosts, which mpiup does not do",
		"-Y sign -f k":           "-Y signs files",
		"-m PEM -t rsa -N  -f k": "-m chooses another format",
		"-x":                     "unknown option -x",
	} {
		if _, err := ParseKeygen(strings.Split(line, " ")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	if _, err := ParseKeygen([]string{"-N", "", "-f", "k", "-C", "two\nlines"}); err == nil {
		t.Error("a comment of two lines would be two lines of authorized_keys")
	}
}
