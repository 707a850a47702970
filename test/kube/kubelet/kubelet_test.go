package kubelet

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mpiup/mpiup/test/need"
)

// store is objects of a namespace.
type store map[string]map[string][]byte

func (s store) secret(_, name string) (map[string][]byte, error) { return s.configMap("", name) }

func (s store) configMap(_, name string) (map[string][]byte, error) {
	if data, ok := s[name]; ok {
		return data, nil
	}
	return nil, errors.New("not found")
}

func (s store) token(namespace, audience string) (string, error) {
	return namespace + " at " + audience, nil
}

func newTestPod(change func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pi-launcher-x7k", Namespace: "team", Labels: map[string]string{"index": "3"}},
		Spec: corev1.PodSpec{Hostname: "pi-launcher", Subdomain: "pi", NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}}}
	p.Status.PodIP = "10.0.0.1"
	if change != nil {
		change(&p.Spec)
	}
	return p
}

// A variable may use those before it; what comes later wins and keeps its place; $$ is a dollar.
func TestEnvironment(t *testing.T) {
	ref := corev1.LocalObjectReference{Name: "conf"}
	c := corev1.Container{
		EnvFrom: []corev1.EnvFromSource{{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}}},
		Env: []corev1.EnvVar{
			{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)-$(NONE)-$$(A)-$A-$("}, {Name: "OF_IMAGE", Value: "over"},
			{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "LABEL", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['index']"}}},
			{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref, Key: "k"}}},
		}}
	got, err := environment(newTestPod(nil), &c, Image{Env: []string{"OF_IMAGE=1", "PATH=/x"}}, store{"conf": {"k": []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"HOSTNAME=pi-launcher", "HOME=/root", "PATH=/x", "A=1", "B=1-$(NONE)-$(A)-$A-$(", "OF_IMAGE=over",
		"POD=pi-launcher-x7k", "LABEL=3", "NODE=n1", "IP=10.0.0.1", "KEY=v", "C_k=v"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing in %q", want, got)
		}
	}
	if words := expandAll([]string{"$(A)$(A)", "$(B"}, got); !slices.Equal(words, []string{"11", "$(B"}) {
		t.Errorf("a command's words: %q", words)
	}
	c.Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "limits.cpu"}}}}
	if _, err := environment(newTestPod(nil), &c, Image{}, store{"conf": {}}); err == nil || !strings.Contains(err.Error(), "limits.cpu is not played") {
		t.Errorf("a field that is not played: %v", err)
	}
}

func TestArgv(t *testing.T) {
	image := Image{Entrypoint: []string{"entry"}, Cmd: []string{"cmd"}}
	for _, tt := range []struct{ command, args, want string }{
		{"", "", "entry cmd"}, {"", "a b", "entry a b"}, {"c d", "", "c d"}, {"c", "a", "c a"},
	} {
		if got := strings.Join(image.argv(strings.Fields(tt.command), strings.Fields(tt.args)), " "); got != tt.want {
			t.Errorf("command %q, args %q: %q, want %q", tt.command, tt.args, got, tt.want)
		}
	}
}

func TestHostsFile(t *testing.T) {
	ips := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	for _, tt := range []struct {
		name   string
		change func(*corev1.PodSpec)
		want   string // its last lines
	}{
		{"with a subdomain", nil, "10.0.0.1\tpi-launcher.pi.team.svc.d\tpi-launcher\nfd00::1\tpi-launcher.pi.team.svc.d\tpi-launcher\n"},
		{"without", func(s *corev1.PodSpec) { s.Hostname, s.Subdomain = "", "" }, "10.0.0.1\tpi-launcher-x7k\nfd00::1\tpi-launcher-x7k\n"},
		{"aliases", func(s *corev1.PodSpec) {
			s.HostAliases = []corev1.HostAlias{{IP: "10.9.9.9", Hostnames: []string{"a", "b"}}}
		},
			"\tpi-launcher\n\n# Entries added by HostAliases.\n10.9.9.9\ta\tb\n"},
		{"of the node", func(s *corev1.PodSpec) { s.HostNetwork = true }, "10.0.0.1\tnode.example.org\tnode\nfd00::1\tnode.example.org\tnode\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := hostsFile(newTestPod(tt.change), "d", ips, "node")
			if !strings.HasPrefix(got, "# Kubernetes-managed hosts file") || !strings.HasSuffix(got, tt.want) {
				t.Errorf("got\n%s\nwant at its end\n%s", got, tt.want)
			}
		})
	}
}

func TestResolvConf(t *testing.T) {
	one := "1"
	const first = "search team.svc.d svc.d d"
	for _, tt := range []struct {
		name   string
		change func(*corev1.PodSpec)
		want   string
	}{
		{"ClusterFirst", nil, first + "\nnameserver 10.96.0.10\noptions ndots:5\n"},
		{"more to search", func(s *corev1.PodSpec) {
			s.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"pi.team.svc.cluster.local", "d"}}
		},
			first + " pi.team.svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"},
		{"another option", func(s *corev1.PodSpec) {
			s.DNSConfig = &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &one}}}
		},
			first + "\nnameserver 10.96.0.10\noptions ndots:1\n"},
		{"hostNetwork has the node's", func(s *corev1.PodSpec) { s.DNSPolicy, s.HostNetwork = corev1.DNSClusterFirst, true }, ""},
		{"unless it asks", func(s *corev1.PodSpec) { s.DNSPolicy, s.HostNetwork = corev1.DNSClusterFirstWithHostNet, true },
			first + "\nnameserver 10.96.0.10\noptions ndots:5\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := resolvConf(newTestPod(tt.change), "d", netip.MustParseAddr("10.96.0.10")); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestPrivileges(t *testing.T) {
	const all = "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write"
	yes, no, uid, gid, zero := true, false, int64(1000), int64(2000), int64(0)
	for _, tt := range []struct {
		name string
		pod  *corev1.PodSecurityContext
		own  *corev1.SecurityContext
		user int64 // of the image
		want string
		err  string
	}{
		{name: "root", want: "0 0 0 " + all},
		{name: "the image's user", user: 777, want: "777 0 0 " + all},
		{name: "a user with an entry", user: 65534, want: "65534 65534 65534 " + all},
		{name: "the pod's user and group", pod: &corev1.PodSecurityContext{RunAsUser: &uid, FSGroup: &gid, SupplementalGroups: []int64{7}}, want: "1000 0 0,7,2000 " + all},
		{name: "the container's user", pod: &corev1.PodSecurityContext{RunAsUser: &uid}, own: &corev1.SecurityContext{RunAsUser: &zero}, want: "0 0 0 " + all},
		{name: "restricted", own: &corev1.SecurityContext{RunAsUser: &uid, AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			want: "1000 0 0 -all --no-new-privs"},
		{name: "other capabilities", own: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"CHOWN"}, Add: []corev1.Capability{"SYS_PTRACE"}}},
			want: "0 0 0 " + strings.Replace(all, "+chown,", "", 1) + ",+sys_ptrace"},
		{name: "not root, as root", pod: &corev1.PodSecurityContext{RunAsNonRoot: &yes}, err: "will run as root"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newTestPod(func(s *corev1.PodSpec) { s.SecurityContext, s.Containers[0].SecurityContext = tt.pod, tt.own })
			words, err := privileges(p, &p.Spec.Containers[0], Image{User: tt.user})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			got := strings.NewReplacer("/usr/bin/setpriv --reuid=", "", "--regid=", "", "--groups=", "", "--inh-caps=-all --bounding-set=", "").Replace(strings.Join(words, " "))
			got = strings.TrimSuffix(got, " --")
			if err != nil || got != tt.want {
				t.Errorf("%q, error %v; want %q", got, err, tt.want)
			}
		})
	}
}

// A volume's files have the modes of item, volume or API; all are swapped at once by a link.
func TestVolume(t *testing.T) {
	mode, item := int32(0o600), int32(0o555)
	v := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: &mode,
		Items: []corev1.KeyToPath{{Key: "a", Path: "id_rsa"}, {Key: "a", Path: "authorized_keys", Mode: &item}}}}}
	objects := store{"s": {"a": []byte("1"), "b": []byte("2")}}
	files, err := volumeFiles(newTestPod(nil), &v, objects)
	// Modes are in decimal: 0600, 0555 and the default 0644.
	if want := "[{id_rsa [49] 384} {authorized_keys [49] 365}]"; err != nil || fmt.Sprint(files) != want {
		t.Errorf("%v, error %v; want %s", files, err, want)
	}
	v.Secret.Items, v.Secret.DefaultMode = nil, nil
	files, err = volumeFiles(newTestPod(nil), &v, objects)
	if want := "[{a [49] 420} {b [50] 420}]"; err != nil || fmt.Sprint(files) != want {
		t.Errorf("%v, error %v; want %s", files, err, want)
	}
	v = corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "trainer", Path: "token"}}}}}}
	files, err = volumeFiles(newTestPod(nil), &v, objects)
	if err != nil || len(files) != 1 || files[0].name != "token" || string(files[0].text) != "team at trainer" {
		t.Errorf("%v, error %v", files, err)
	}
	v = corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}
	v.Secret.SecretName = "none"
	if _, err := volumeFiles(newTestPod(nil), &v, objects); err == nil {
		t.Error("a Secret that is not there has files")
	}
}

func TestWriteVolume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "v")
	read := func(want string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil || string(text) != want {
			t.Errorf("%q, error %v; want %q", text, err, want)
		}
	}
	gid := int64(os.Getgid())
	need.Root(t) // gives files away
	if err := writeVolume(dir, []file{{"f", []byte("1"), 0o600}}, nil, 1); err != nil {
		t.Fatal(err)
	}
	read("1")
	if err := writeVolume(dir, []file{{"f", []byte("2"), 0o600}}, &gid, 2); err != nil {
		t.Fatal(err)
	}
	read("2")
	if info, err := os.Stat(filepath.Join(dir, "f")); err != nil || info.Mode() != 0o640 {
		t.Errorf("with fsGroup: %v, error %v", info.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 { // f, ..data and one directory
		t.Errorf("%v", entries)
	}
}

func TestPlaced(t *testing.T) {
	for path, want := range map[string]bool{"/": false, "/usr/lib/x": false, "/usr/local/bin/mpiup": true, "/usr/sbin/sshd": true, "/etc/mpi": true,
		"/workspace": true, "/tmp": true, "/var/run/x": true, "/var/lib": false, "/proc/1": false, "relative": false, "/usrlocal": true} {
		if placed(path) != want {
			t.Errorf("%s: %v, want %v", path, !want, want)
		}
	}
}

// What is not played is named, never left out.
func TestPlayable(t *testing.T) {
	yes := true
	for want, change := range map[string]func(*corev1.PodSpec){
		"2 containers": func(s *corev1.PodSpec) { s.Containers = append(s.Containers, s.Containers[0]) },
		"a hook but": func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}}
		},
		"sharing of processes": func(s *corev1.PodSpec) { s.ShareProcessNamespace = &yes },
		"setHostnameAsFQDN":    func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = &yes },
		"a probe but":          func(s *corev1.PodSpec) { s.Containers[0].LivenessProbe = &corev1.Probe{} },
		"a mount at /usr/lib":  func(s *corev1.PodSpec) { s.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/usr/lib"}} },
		"a sidecar": func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{{RestartPolicy: new(corev1.ContainerRestartPolicy)}}
		},
	} {
		p := newPod(nil, newTestPod(change))
		if err := p.playable(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := newPod(nil, newTestPod(nil)).playable(); err != nil {
		t.Error(err)
	}
}
