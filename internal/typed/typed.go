// Package typed knows variables that may have been set for one command, as in "NCCL_DEBUG=INFO mpiup run": which of them go along to
// the ranks' hosts by themselves, and how a launcher learns which of the others a host has otherwise.
//
//	launcher's environment ─Since(what its session began with)─▶ Goes ─▶ ranks get them
//	                       └────────────────────────────────────▶ the others, who Goes but is older, and in a pod its Manifest's ─▶ Marks
//	Marks ═Open═▶ agent: Lacking(its container's environment) ═Opened═▶ by index, to say which and where
//
// A mark has a name and a digest of the value under the session's key. A value that is a secret has no digest, nor has one of a manifest, which
// may well differ between pods: of those an agent learns the name alone.
//
// PURE: functions share nothing. The package reads no environment, and knows no secret when it sees one: callers do.
package typed

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"strings"
)

// Bounds of what a launcher asks of an agent.
const (
	MaxMarks = 256 // an image of NVIDIA's has some 90 variables
	maxName  = 255
)

// families are the settings of libraries that a rank loads. Nothing finds a program, a file or a person by them.
var families = []string{"NCCL_", "UCX_", "FI_", "OMP_", "TORCH_", "CUDA_"}

// makers name an image's own CUDA and NCCL. They set nothing.
var makers = []string{"CUDA_VERSION", "NCCL_VERSION"}

// Goes says that a variable goes along by itself, unless its value is a secret.
func Goes(name string) bool {
	return !slices.Contains(makers, name) &&
		slices.ContainsFunc(families, func(f string) bool { return strings.HasPrefix(name, f) && len(name) > len(f) })
}

// What shells, terminals, logins and Kubernetes set is nobody's wish for ranks, nor what mpiup and operators tell the launcher, nor
// who the user is. PATH is every shell's to change; a program that hosts do not find is told of.
var (
	usual = []string{
		"_", "SHLVL", "PWD", "OLDPWD", "TERM", "TERMINFO", "COLORTERM", "LINES", "COLUMNS", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "TMOUT", "EDITOR", "VISUAL",
		"PAGER", "LS_COLORS", "LS_OPTIONS", "LESSOPEN", "LESSCLOSE", "GPG_TTY", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "INVOCATION_ID", "JOURNAL_STREAM",
		"PATH", "MANPATH", "INFOPATH", "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "HOSTNAME", "HOST", "UID", "TTY", "TMUX", "STY", "WINDOWID",
		"LOADEDMODULES", "_LMFILES_", "GOGC", "GOMEMLIMIT",
		"TRACEPARENT", "TRACESTATE", // of which each rank gets its own
	}
	usualPrefixes = []string{"BASH_FUNC_", "HIST", "SSH_", "XDG_", "DBUS_", "SUDO_", "TMUX_", "MODULE", "LMOD_", "_LM", "__LMOD",
		"__MODULES", "CONDA_", "_CE_", "_CONDA",
		"KUBERNETES_", "KUBEFLOW_", "MPIUP_", "K_MPI_", "PET_", "JOBSET_", "LWS_", "GROVE_", "VC_", "HYDRA_", "I_MPI_HYDRA_", "PMI_", "PMIX_", "SLURM_"}
)

// ofPod are what manifests tell each pod of itself (downward API) and operators the launcher alone: another pod's ranks have their own.
var (
	ofPod = []string{"NODE_NAME", "NODE_IP", "HOST_IP", "HOST_IPS", "POD_NAME", "POD_NAMESPACE", "POD_IP", "POD_IPS", "POD_UID",
		"JOB_COMPLETION_INDEX", "VK_TASK_INDEX", "MPI_HOST", "I_MPI_PERHOST"} // MPI_HOST: Volcano's plugin mpi, its master alone
	ofPodPrefixes = []string{"NVIDIA_", "OMPI_MCA_orte_", "OMPI_MCA_plm_"}
)

// Manifest are the variables that a container's manifest or image may have given it, by NAME=value: nothing outside of Kubernetes, whose kubelet
// sets KUBERNETES_SERVICE_HOST (pkg/kubelet/kubelet_pods.go). What a service has put there (X_SERVICE_HOST, X_PORT_80_TCP; pkg/kubelet/envvars)
// is nobody's wish.
func Manifest(env []string) (list []string) {
	has := make(map[string]bool, len(env))
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		has[name] = true
	}
	if !has["KUBERNETES_SERVICE_HOST"] {
		return nil
	}

	ofService := func(name string) bool {
		for i := range len(name) {
			service, rest := name[:i], name[i:]
			if (strings.HasPrefix(rest, "_SERVICE_") || strings.HasPrefix(rest, "_PORT")) && has[service+"_SERVICE_HOST"] && has[service+"_SERVICE_PORT"] {
				return true
			}
		}
		return false
	}
	for _, kv := range Since(env, nil) {
		name, _, _ := strings.Cut(kv, "=")
		own := slices.Contains(makers, name) || slices.Contains(ofPod, name) ||
			slices.ContainsFunc(ofPodPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if !own && !ofService(name) {
			list = append(list, kv)
		}
	}
	return list
}

// Since are the variables that an environment has and an earlier one had not, or with another value, by name: NAME=value.
func Since(now, before []string) (list []string) {
	had := make(map[string]bool, len(before))
	for _, kv := range before {
		had[kv] = true
	}
	for _, kv := range now {
		name, _, ok := strings.Cut(kv, "=")
		if ok && name != "" && !had[kv] && !slices.Contains(usual, name) &&
			!slices.ContainsFunc(usualPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			list = append(list, kv)
		}
	}
	slices.Sort(list)
	return list
}

// Plain says that a name is one that shells know (POSIX, 3.216 Name): nothing else comes with it where it is pasted. Kubernetes takes any
// printable name but "=", also from a ConfigMap of somebody else's.
func Plain(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Mark is a variable as an agent is asked for it.
type Mark struct {
	Name   string
	Digest []byte // nil: it is asked for the name alone
}

// digest is of a value, for whoever has the session's key. It shows nothing of a value that cannot be guessed.
func digest(name, value string, key []byte) []byte {
	const enough = 8
	h := hmac.New(sha256.New, key)
	h.Write([]byte(name + "=" + value)) // never fails (hash.Hash)
	return h.Sum(nil)[:enough]
}

// Of is a variable's mark.
func Of(kv string, secret bool, key []byte) Mark {
	name, value, _ := strings.Cut(kv, "=")
	m := Mark{Name: name}
	if !secret {
		m.Digest = digest(name, value, key)
	}
	return m
}

// Lacking are the marks, by index, that an environment has no such variable for. Marks may be anybody's: beyond MaxMarks, and with a name that is
// too long, they are not looked at.
func Lacking(marks []Mark, env []string, key []byte) (list []uint32) {
	if len(marks) == 0 {
		return nil
	}
	has := make(map[string]string, len(env))
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			has[name] = value
		}
	}
	for i, m := range marks[:min(len(marks), MaxMarks)] {
		if len(m.Name) > maxName {
			continue
		}
		value, ok := has[m.Name]
		if !ok || len(m.Digest) > 0 && !bytes.Equal(m.Digest, digest(m.Name, value, key)) {
			list = append(list, uint32(i))
		}
	}
	return list
}

// Variable is one of a launcher's that its ranks do not get.
type Variable struct {
	Text   string      // NAME=value
	Secret func() bool // whether its value may be one; nil: it is not
	Since  bool        // it may have been set for this command; else it is older
	// Presence has hosts asked whether they have such a variable, whatever its value is.
	Presence bool
}

// Name is what it is called.
func (v Variable) Name() string {
	name, _, _ := strings.Cut(v.Text, "=")
	return name
}
