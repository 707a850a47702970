package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// objects gives what a pod refers to by name.
type objects interface {
	secret(namespace, name string) (map[string][]byte, error)
	configMap(namespace, name string) (map[string][]byte, error)
	token(namespace, audience string) (string, error)
}

// environment is that of a container: image, service account's API, envFrom, env. What comes
// later wins, and $(NAME) in a value means a variable that came before.
func environment(p *corev1.Pod, c *corev1.Container, image Image, from objects) ([]string, error) {
	vars := map[string]string{}
	var names []string
	set := func(name, value string) {
		if _, known := vars[name]; !known {
			names = append(names, name)
		}
		vars[name] = value
	}
	home, _ := entry(uid(p, c, image))
	host := hostname(p)
	if p.Spec.HostNetwork {
		host = p.Spec.NodeName
	}
	for _, kv := range append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOSTNAME=" + host, "HOME=" + home, "KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_SERVICE_PORT_HTTPS=443",
		"KUBERNETES_PORT=tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO=tcp",
		"KUBERNETES_PORT_443_TCP_PORT=443", "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1"}, image.Env...) {
		name, value, _ := strings.Cut(kv, "=")
		set(name, value)
	}
	for _, e := range c.EnvFrom {
		data, err := envFrom(p, e, from)
		if err != nil {
			return nil, err
		}
		for name, value := range data {
			set(e.Prefix+name, string(value))
		}
	}
	for _, e := range c.Env {
		value := expand(e.Value, vars)
		if e.ValueFrom != nil {
			var err error
			if value, err = valueFrom(p, e.ValueFrom, from); errors.Is(err, errOptional) {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("variable %s: %w", e.Name, err)
			}
		}
		set(e.Name, value)
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n + "=" + vars[n]
	}
	return out, nil
}

// errOptional is what is not there and need not be.
var errOptional = errors.New("it is optional")

func envFrom(p *corev1.Pod, e corev1.EnvFromSource, from objects) (map[string][]byte, error) {
	if e.SecretRef != nil {
		return from.secret(p.Namespace, e.SecretRef.Name)
	}
	if e.ConfigMapRef != nil {
		return from.configMap(p.Namespace, e.ConfigMapRef.Name)
	}
	return nil, notPlayed("this source of variables")
}

func valueFrom(p *corev1.Pod, s *corev1.EnvVarSource, from objects) (string, error) {
	var data map[string][]byte
	var key string
	var optional *bool
	var err error
	switch {
	case s.FieldRef != nil:
		return field(p, s.FieldRef.FieldPath)
	case s.SecretKeyRef != nil:
		key, optional = s.SecretKeyRef.Key, s.SecretKeyRef.Optional
		data, err = from.secret(p.Namespace, s.SecretKeyRef.Name)
	case s.ConfigMapKeyRef != nil:
		key, optional = s.ConfigMapKeyRef.Key, s.ConfigMapKeyRef.Optional
		data, err = from.configMap(p.Namespace, s.ConfigMapKeyRef.Name)
	default:
		return "", notPlayed("this source of a value")
	}
	value, ok := data[key]
	if err == nil && !ok {
		err = fmt.Errorf("there is no key %q", key)
	}
	if err != nil && !errors.Is(err, errNotPlayed) && optional != nil && *optional {
		err = errOptional
	}
	return string(value), err
}

// field is a field of the pod as the downward API has them.
func field(p *corev1.Pod, path string) (string, error) {
	for prefix, m := range map[string]map[string]string{"metadata.labels": p.Labels, "metadata.annotations": p.Annotations} {
		if key, ok := strings.CutPrefix(path, prefix+"['"); ok {
			return m[strings.TrimSuffix(key, "']")], nil
		}
	}
	switch path {
	case "metadata.name":
		return p.Name, nil
	case "metadata.namespace":
		return p.Namespace, nil
	case "metadata.uid":
		return string(p.UID), nil
	case "spec.nodeName":
		return p.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	case "status.podIP":
		return p.Status.PodIP, nil
	case "status.podIPs":
		ips := make([]string, len(p.Status.PodIPs))
		for i, ip := range p.Status.PodIPs {
			ips[i] = ip.IP
		}
		return strings.Join(ips, ","), nil
	case "status.hostIP":
		return p.Status.HostIP, nil
	}
	return "", notPlayed("the field " + path)
}

// expand replaces $(NAME) by the variable, if there is one, and $$ by $
// (k8s.io/kubernetes/third_party/forked/golang/expansion).
func expand(text string, vars map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		switch end := strings.IndexByte(text[i:], ')'); {
		case text[i+1] == '$':
			b.WriteByte('$')
			i++
		case text[i+1] == '(' && end > 0:
			if value, ok := vars[text[i+2:i+end]]; ok {
				b.WriteString(value)
			} else {
				b.WriteString(text[i : i+end+1])
			}
			i += end
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

// expandAll expands a command's words with the container's environment.
func expandAll(words, env []string) []string {
	vars := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		vars[name] = value
	}
	out := slices.Clone(words)
	for i, w := range out {
		out[i] = expand(w, vars)
	}
	return out
}

// notPlayed is the error for what a Pod asks for and this package does not do.
func notPlayed(what string) error { return fmt.Errorf("%s %w", what, errNotPlayed) }

var errNotPlayed = errors.New("is not played by test/kube/kubelet")
