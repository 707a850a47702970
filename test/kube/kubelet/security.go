package kubelet

import (
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// user is who the container runs as: the container's, the pod's or the image's word.
func user(p *corev1.Pod, c *corev1.Container, image Image) int64 {
	if s := c.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser
	}
	if s := p.Spec.SecurityContext; s != nil && s.RunAsUser != nil {
		return *s.RunAsUser
	}
	return image.User
}

// group is the container's first group; 0 where nothing says another, as for users without a
// passwd entry.
func group(p *corev1.Pod, c *corev1.Container) int64 {
	if s := c.SecurityContext; s != nil && s.RunAsGroup != nil {
		return *s.RunAsGroup
	}
	if s := p.Spec.SecurityContext; s != nil && s.RunAsGroup != nil {
		return *s.RunAsGroup
	}
	return 0
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
// Root keeps all capabilities of the test unless the pod drops them; of a runtime's usual set
// nothing here depends.
func privileges(p *corev1.Pod, c *corev1.Container, image Image) ([]string, error) {
	uid, gid := user(p, c, image), group(p, c)
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
	var flags []string
	if uid != 0 || gid != 0 || ps.FSGroup != nil {
		groups := "--clear-groups"
		if ps.FSGroup != nil {
			groups = "--groups=" + strconv.FormatInt(*ps.FSGroup, 10)
		}
		flags = append(flags, "--reuid="+strconv.FormatInt(uid, 10), "--regid="+strconv.FormatInt(gid, 10), groups)
	}
	if cs.Capabilities != nil {
		for _, drop := range cs.Capabilities.Drop {
			if drop == "ALL" {
				flags = append(flags, "--bounding-set=-all", "--inh-caps=-all")
			}
		}
	}
	if cs.AllowPrivilegeEscalation != nil && !*cs.AllowPrivilegeEscalation {
		flags = append(flags, "--no-new-privs")
	}
	if len(flags) == 0 {
		return nil, nil
	}
	return append(append([]string{"/usr/bin/setpriv"}, flags...), "--"), nil
}
