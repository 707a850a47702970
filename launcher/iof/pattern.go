package iof

import (
	"strconv"
	"strings"
)

// Pattern is a text with places for what a process is, as Hydra has them: %r its rank, %g its job's
// number, %p the index of its host, %h the host's name, %t (before lines) seconds since Begun, %% a
// percent sign. Other letters after a percent sign stand for nothing.
type Pattern string

// partOfName makes others' text a part of a file's name. It has no separator and no control character, leaves room
// for more (NAME_MAX is 255 bytes), and is neither "." nor "..".
func partOfName(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == '/' || c == 0x7f {
			return '_'
		}
		return c
	}, strings.ToValidUTF8(s, "_"))
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "")
	}
	if strings.Trim(s, ".") == "" {
		s = strings.Repeat("_", len(s))
	}
	return s
}

// fill is a pattern filled in for a process, cut where the time stands; host is how a host's name is written.
func (c *Config) fill(p Pattern, id int, host func(string) string) (list []string) {
	process := c.process(id)
	var b strings.Builder
	for text := string(p); text != ""; {
		before, after, found := strings.Cut(text, "%")
		b.WriteString(before)
		if !found || after == "" {
			break
		}
		switch after[0] {
		case 'r':
			b.WriteString(strconv.Itoa(process.Rank))
		case 'g':
			b.WriteString(strconv.Itoa(process.Job))
		case 'p':
			if c.Node != nil {
				b.WriteString(strconv.Itoa(c.Node(id)))
			}
		case 'h':
			if c.Host != nil {
				b.WriteString(host(c.Host(id)))
			}
		case 't':
			list = append(list, b.String())
			b.Reset()
		case '%':
			b.WriteByte('%')
		}
		text = after[1:]
	}
	return append(list, b.String())
}

// patterned is the file of a stream by its pattern, opened when it is first written to. Streams
// whose patterns come out as one name share one file.
func (fs *files) patterned(k laneKey) (err error) {
	path := strings.Join(fs.cfg.fill(fs.cfg.Files[k.stream], k.id, partOfName), "")
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.byPath[path]
	if f == nil {
		if f, err = fs.cfg.places.files[k.stream].create(path, fs.how()); err != nil {
			return plenty(err)
		}
		fs.byPath[path] = f
	}
	fs.byLane[k] = f
	return nil
}
