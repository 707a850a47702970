package discover

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/podfiles"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// private takes out of files what tells of somebody. The same address has the same replacement
// everywhere.
type private struct{ addresses map[string]int }

// keep are those lines that change gives something for, as it gives them.
func keep(text string, change func(line string) string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(change(line))
	}
	return b.String()
}

// lines keeps the lines that begin with one of the words.
func lines(words ...string) func(*private, string) string {
	return func(_ *private, text string) string {
		return keep(text, func(line string) string {
			begin := strings.TrimLeft(line, " \t")
			if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(begin, w) }) {
				return line
			}
			return ""
		})
	}
}

// memory keeps the size: "Node 0 MemTotal: 16777216 kB".
func (*private) memory(text string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, "MemTotal:") {
			return line
		}
	}
	return ""
}

// config keeps the standard header.
func (*private) config(data string) string { return data[:min(len(data), 64)] }

// cpuinfo keeps the first processor's names.
func (p *private) cpuinfo(text string) string {
	text, _, _ = strings.Cut(text, "\n\n")
	return lines("processor", "vendor_id", "cpu family", "model", "stepping", "cpu\t", "revision", "CPU ")(p, text)
}

// address replaces "b8:ce:f6:01:02:03" or "b8ce:f603:0001:0203" by a number of the same form.
func (p *private) address(text string) string {
	text = strings.TrimSpace(text)
	if strings.Trim(text, "0:") == "" {
		return text + "\n"
	}
	if p.addresses == nil {
		p.addresses = make(map[string]int)
	}
	n, ok := p.addresses[text]
	if !ok {
		n = len(p.addresses) + 1
		p.addresses[text] = n
	}
	if strings.Count(text, ":") == 3 {
		return fmt.Sprintf("0200:0000:%04x:%04x\n", n>>16, n&0xffff)
	}
	return fmt.Sprintf("02:00:00:%02x:%02x:%02x\n", n>>16&0xff, n>>8&0xff, n&0xff)
}

// mounts keeps where control groups are.
func (*private) mounts(text string) string {
	return keep(text, func(line string) string {
		if len(podfiles.Mounts(line, groupFS)) == 0 {
			return ""
		}
		return line
	})
}

// mountinfo keeps them too. Field 4 is a group's name.
func (*private) mountinfo(text string) string {
	return keep(text, func(line string) string {
		if len(podfiles.MountInfo(line, groupFS)) == 0 {
			return ""
		}
		f := strings.Fields(line)
		f[3] = alias(f[3])
		return strings.Join(f, " ") + "\n"
	})
}

// alias is a group's name by its levels: "/kubepods/pod1b2c/4d5e" becomes "/1/2/3".
func alias(group string) string {
	parts := strings.Split(path.Clean("/"+strings.TrimSpace(group)), "/")
	if strings.HasPrefix(strings.TrimSpace(group), "/..") {
		return "/.." // seen from a namespace whose root lies elsewhere
	}
	for i := range parts {
		if parts[i] != "" {
			parts[i] = strconv.Itoa(i)
		}
	}
	return path.Join("/", path.Join(parts...))
}

func (*private) group(text string) string { return alias(text) + "\n" }

// membership keeps "4:memory,cpu:/kubepods/..." with the group's alias.
func (*private) membership(text string) string {
	return keep(text, func(line string) string {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			return ""
		}
		return fmt.Sprintf("%s:%s:%s\n", f[0], f[1], alias(f[2]))
	})
}

// maxLevels bounds the groups that are looked at, beside maxMounts.
const maxLevels = 64

// cgroups takes the files of this process's groups and of those above them.
func (t *taker) cgroups() error {
	text, _ := t.fs.Text("proc/mounts")
	groups := map[string]bool{"/": true}
	if group, err := t.fs.Text("proc/self/cpuset"); err == nil {
		groups[path.Clean("/"+group)] = true
	}
	membership, _ := t.fs.Text("proc/self/cgroup")
	for _, group := range memberships(membership) {
		if len(groups) < maxMounts {
			groups[path.Clean("/"+group)] = true
		}
	}
	all := podfiles.Mounts(text, groupFS)
	for _, m := range all[:min(len(all), maxMounts)] {
		for group := range groups {
			for level := 0; level < maxLevels; level++ {
				if err := t.groupFiles(m.Dir, group); err != nil {
					return err
				}
				if group == "/" {
					break
				}
				group = path.Dir(group)
			}
		}
	}
	return nil
}

func (t *taker) groupFiles(mount, group string) error {
	for _, file := range strings.Fields(groupFiles) {
		data, err := t.fs.Prefix(path.Join(mount, group, file), sysfs.MaxText)
		if err != nil {
			continue
		}
		if err := t.add(path.Join(mount, alias(group), file), File{Data: data}); err != nil {
			return err
		}
	}
	return nil
}
