package kubelet

import (
	"errors"
	"os/user"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// uid is who the container runs as: the container's, the pod's or the image's word.
func uid(p *corev1.Pod, c *corev1.Container, image Image) int64 {
	if s := c.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser
	}
	if s := p.Spec.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser
	}
	return image.User
}

// entry is a user's line of the image's /etc/passwd, as runtimes look for it. Images have this machine's file, of which
// only those users count that every Debian has.
func entry(uid int64) (home string, gid int64) {
	u, err := user.LookupId(strconv.FormatInt(uid, 10))
	if err != nil || uid >= 100 && uid != 65534 {
		return "/", 0
	}
	gid, _ = strconv.ParseInt(u.Gid, 10, 64)
	return u.HomeDir, gid
}

// group is the container's first group; its user's where nothing says another.
func group(p *corev1.Pod, c *corev1.Container, image Image) int64 {
	if s := c.SecurityContext; s != nil && s.RunAsGroup != nil {
		return *s.RunAsGroup
	}
	if s := p.Spec.SecurityContext; s != nil && s.RunAsGroup != nil {
		return *s.RunAsGroup
	}
	_, gid := entry(uid(p, c, image))
	return gid
}

func fsGroup(p *corev1.Pod) *int64 {
	if s := p.Spec.SecurityContext; s != nil {
		return s.FSGroup
	}
	return nil
}

func readOnlyRoot(c *corev1.Container) bool {
	s := c.SecurityContext
	return s != nil && s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem
}

// privileges are the words before a command that make it what the security contexts ask for.
func privileges(p *corev1.Pod, c *corev1.Container, image Image) ([]string, error) {
	uid, gid := uid(p, c, image), group(p, c, image)
	ps, cs := p.Spec.SecurityContext, c.SecurityContext
	if ps == nil {
		ps = &corev1.PodSecurityContext{}
	}
	if cs == nil {
		cs = &corev1.SecurityContext{}
	}
	nonRoot := ps.RunAsNonRoot
	if cs.RunAsNonRoot != nil {
		nonRoot = cs.RunAsNonRoot
	}
	if nonRoot != nil && *nonRoot && uid == 0 {
		return nil, errors.New("container has runAsNonRoot and image will run as root")
	}
	words := []string{"/usr/bin/setpriv", "--reuid=" + strconv.FormatInt(uid, 10), "--regid=" + strconv.FormatInt(gid, 10), "--groups=" + groups(gid, ps),
		"--inh-caps=-all", "--bounding-set=-all" + bounds(cs.Capabilities)}
	if cs.AllowPrivilegeEscalation != nil && !*cs.AllowPrivilegeEscalation {
		words = append(words, "--no-new-privs")
	}
	return append(words, "--"), nil
}

// groups are all of the container's: its first one, its volumes' and those that the pod names.
func groups(gid int64, s *corev1.PodSecurityContext) string {
	all := []string{strconv.FormatInt(gid, 10)}
	for _, g := range s.SupplementalGroups {
		all = append(all, strconv.FormatInt(g, 10))
	}
	if s.FSGroup != nil {
		all = append(all, strconv.FormatInt(*s.FSGroup, 10))
	}
	return strings.Join(all, ",")
}

// usual are the capabilities that runtimes leave to root.
var usual = []string{"chown", "dac_override", "fsetid", "fowner", "mknod", "net_raw", "setgid", "setuid", "setfcap", "setpcap", "net_bind_service",
	"sys_chroot", "kill", "audit_write"}

// bounds are the capabilities that a container's programs may ever have, as setpriv(1) reads them.
func bounds(c *corev1.Capabilities) (flags string) {
	have := slices.Clone(usual)
	if c != nil {
		for _, drop := range c.Drop {
			have = slices.DeleteFunc(have, func(name string) bool { return drop == "ALL" || strings.EqualFold(name, string(drop)) })
		}
		for _, add := range c.Add {
			have = append(have, strings.ToLower(string(add)))
		}
	}
	for _, name := range have {
		flags += ",+" + name
	}
	return flags
}
