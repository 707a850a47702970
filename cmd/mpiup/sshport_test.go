package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/cli/ssh"
	"github.com/mpiup/mpiup/test/cost"
)

func TestSSHPorts(t *testing.T) {
	root := t.TempDir()
	config := filepath.Join(root, "etc/ssh/sshd_config")
	for _, tt := range []struct {
		name, args, config string
		want               []int
		asked              bool
	}{
		{"nothing said", "-De", "", []int{22}, false},
		{"command line", "-D -p 2222 -oPort=2223 -o PasswordAuthentication=no", "Port 2224\n", []int{2222, 2223}, true},
		{"letters in one word", "-Dep2222", "", []int{2222}, true},
		{"configuration", "-De", "# Port 1\nPort 2222\nport=2223\n\tPort \"2224\"\nPortal 9\n", []int{2222, 2223, 2224}, true},
		{"no port in it", "-De", "PidFile /x\nPort none\nPort 70000\nPort\n", []int{22}, false},
		{"another file", "-De -f /other", "Port 2222\n", []int{22}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Dir(config), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(config, []byte(tt.config), 0o644); err != nil {
				t.Fatal(err)
			}
			line, err := parseSSHD(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if got, asked := sshPorts(line, root); !slices.Equal(got, tt.want) || asked != tt.asked {
				t.Errorf("ports %v, asked for %v; want %v, %v", got, asked, tt.want, tt.asked)
			}
		})
	}
}

// FuzzPortsIn takes any text for sshd's configuration.
func FuzzPortsIn(f *testing.F) {
	f.Add("# Port 1\nPort 2222\nport=2223\n\tPort \"2224\"\nPortal 9\nPort 0\nPort 65536\n")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		var s ssh.Server
		s.Read(text)
		ports := s.Ports
		if len(ports) > 16 || slices.ContainsFunc(ports, func(n int) bool { return n < 1 || n > 65535 }) {
			t.Errorf("ports %v", ports)
		}
	})
}

// Who connects to sshd's port finds somebody; a port that is taken is named and the other serves.
func TestDoors(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := taken.Addr().(*net.TCPAddr).Port
	d, err := openDoors([]int{busy, 0})
	if err == nil || !strings.Contains(err.Error(), "will find nobody") {
		t.Errorf("a port that is taken: %v", err)
	}
	if len(d.listeners) != 1 {
		t.Fatalf("%d listeners, want 1", len(d.listeners))
	}
	for range 3 {
		conn, err := net.Dial("tcp", d.listeners[0].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("read %d bytes, error %v; want the end", n, err)
		}
		conn.Close()
	}
	d.close()
	(*doors)(nil).close()
}
