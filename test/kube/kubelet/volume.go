package kubelet

import (
	"bytes"
	"errors"
	"fmt"
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

// volumeFiles are the files of a Secret's or ConfigMap's volume, nil for an emptyDir.
func volumeFiles(p *corev1.Pod, v *corev1.Volume, from objects) (files []file, err error) {
	var data map[string][]byte
	var items []corev1.KeyToPath
	var mode *int32
	switch {
	case v.EmptyDir != nil:
		return nil, nil
	case v.Secret != nil:
		data, err = from.secret(p.Namespace, v.Secret.SecretName)
		items, mode = v.Secret.Items, v.Secret.DefaultMode
	case v.ConfigMap != nil:
		data, err = from.configMap(p.Namespace, v.ConfigMap.Name)
		items, mode = v.ConfigMap.Items, v.ConfigMap.DefaultMode
	default:
		return nil, fmt.Errorf("volume %s: %w", v.Name, notPlayed("its kind"))
	}
	if err != nil {
		return nil, fmt.Errorf("volume %s: %w", v.Name, err)
	}
	if len(items) == 0 {
		for key := range data {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
		slices.SortFunc(items, func(a, b corev1.KeyToPath) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
	}
	for _, it := range items {
		text, ok := data[it.Key]
		if !ok {
			return nil, fmt.Errorf("volume %s: there is no key %q", v.Name, it.Key)
		}
		f := file{name: it.Path, text: text, mode: 0o644} // the API's default
		if mode != nil {
			f.mode = os.FileMode(*mode)
		}
		if it.Mode != nil {
			f.mode = os.FileMode(*it.Mode)
		}
		files = append(files, f)
	}
	return files, nil
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

// writeEmptyDir makes a volume for everyone.
func writeEmptyDir(dir string, fsGroup *int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if fsGroup != nil {
		if err := os.Chown(dir, 0, int(*fsGroup)); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o777)
}
