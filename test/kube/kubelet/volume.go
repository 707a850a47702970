package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// file is one of a Secret's or ConfigMap's volume.
type file struct {
	name string
	text []byte
	mode os.FileMode
}

// volumeFiles are the files of a volume that has any, nil for an emptyDir.
func volumeFiles(p *corev1.Pod, v *corev1.Volume, from objects) (files []file, err error) {
	switch {
	case v.EmptyDir != nil:
		return nil, nil
	case v.Secret != nil:
		s := v.Secret
		files, err = keys(s.Items, s.DefaultMode, s.Optional, func() (map[string][]byte, error) { return from.secret(p.Namespace, s.SecretName) })
	case v.ConfigMap != nil:
		c := v.ConfigMap
		files, err = keys(c.Items, c.DefaultMode, c.Optional, func() (map[string][]byte, error) { return from.configMap(p.Namespace, c.Name) })
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			var more []file
			if more, err = projected(p, s, v.Projected.DefaultMode, from); err != nil {
				break
			}
			files = append(files, more...)
		}
	default:
		err = notPlayed("its kind")
	}
	if err != nil {
		return nil, fmt.Errorf("volume %s: %w", v.Name, err)
	}
	return files, nil
}

// projected are the files of one source of a projected volume.
func projected(p *corev1.Pod, s corev1.VolumeProjection, mode *int32, from objects) ([]file, error) {
	switch {
	case s.Secret != nil:
		return keys(s.Secret.Items, mode, s.Secret.Optional, func() (map[string][]byte, error) { return from.secret(p.Namespace, s.Secret.Name) })
	case s.ConfigMap != nil:
		return keys(s.ConfigMap.Items, mode, s.ConfigMap.Optional, func() (map[string][]byte, error) { return from.configMap(p.Namespace, s.ConfigMap.Name) })
	case s.DownwardAPI != nil:
		var files []file
		for _, it := range s.DownwardAPI.Items {
			if it.FieldRef == nil {
				return nil, notPlayed("a resource as a file")
			}
			text, err := field(p, it.FieldRef.FieldPath)
			if err != nil {
				return nil, err
			}
			files = append(files, file{it.Path, []byte(text), modeOf(it.Mode, mode)})
		}
		return files, nil
	case s.ServiceAccountToken != nil:
		text, err := from.token(p.Namespace, s.ServiceAccountToken.Audience)
		return []file{{s.ServiceAccountToken.Path, []byte(text), modeOf(mode)}}, err
	}
	return nil, notPlayed("this source of a projected volume")
}

// keys are the files of a Secret or ConfigMap: those that are named, else all.
func keys(items []corev1.KeyToPath, mode *int32, optional *bool, read func() (map[string][]byte, error)) (files []file, err error) {
	data, err := read()
	if err != nil && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, it := range items {
		text, ok := data[it.Key]
		if !ok {
			return nil, fmt.Errorf("there is no key %q", it.Key)
		}
		files = append(files, file{it.Path, text, modeOf(it.Mode, mode)})
	}
	return files, nil
}

// modeOf is the first mode that is given; the API has a default.
func modeOf(modes ...*int32) os.FileMode {
	for _, m := range modes {
		if m != nil {
			return os.FileMode(*m)
		}
	}
	return 0o644
}

// writeVolume makes or renews a volume as AtomicWriter does: a directory named by time, ..data
// pointing to it, and a link through ..data for each file or directory of files. With fsGroup the files are the
// group's and it may read them (SetVolumeOwnership: roMask).
func writeVolume(dir string, files []file, fsGroup *int64, version int) error {
	data := "..2026_11_22_08_00_00." + strconv.Itoa(1000+version)
	gid := 0
	if fsGroup != nil {
		gid = int(*fsGroup)
	}
	if err := os.MkdirAll(filepath.Join(dir, data), 0o755); err != nil {
		return err
	}
	for _, f := range files {
		mode := f.mode
		if fsGroup != nil {
			mode |= 0o440
		}
		path := filepath.Join(dir, data, f.name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.text, 0o600), os.Chown(path, 0, gid), os.Chmod(path, mode)); err != nil {
			return err
		}
		first, _, _ := strings.Cut(f.name, "/")
		if err := os.Symlink(filepath.Join("..data", first), filepath.Join(dir, first)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	old, _ := os.Readlink(filepath.Join(dir, "..data"))
	next := filepath.Join(dir, "..data_tmp")
	if err := errors.Join(os.Symlink(data, next), os.Rename(next, filepath.Join(dir, "..data"))); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(dir, old))
	}
	return nil
}

// openTo opens a volume's directory to everyone: what lies in memory is sticky, as a tmpfs is, and with fsGroup new files
// are the group's.
func openTo(dir string, memory bool, fsGroup *int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o777)
	if memory {
		mode |= os.ModeSticky
	}
	if fsGroup != nil {
		mode |= os.ModeSetgid
		if err := os.Chown(dir, 0, int(*fsGroup)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, mode)
}
