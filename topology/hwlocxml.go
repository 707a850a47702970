package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
)

// XML is a machine as hwloc's version 2 XML, so that programs which use hwloc
// need not read /sys themselves (HWLOC_XMLFILE, pmix.hwlocxml2, PMI_hwloc_xmlfile).
//
//	<?xml version="1.0" encoding="UTF-8"?>
//	<!DOCTYPE topology SYSTEM "hwloc2.dtd">
//	<topology version="2.0">
//	  <object type="Machine" os_index="0" cpuset="0x00000003" ... gp_index="1">
//	    <info name="Backend" value="Linux"/>
//	    <object type="Package" ...>
//	      <object type="NUMANode" ...><page_type .../></object>      memory first,
//	      <object type="L3Cache" ...> ... </object>                  then CPUs,
//	    <object type="Bridge" ...> ... </object>                     then I/O
//	  </object>
//	  <distances2 ...>  <cpukind ...>
//	</topology>
//
// Every hwloc from 2.0 to 2.12 reads it, those built with libxml2 and those with the small parser
// of their own, which wants elements, quotes and line ends as hwloc writes them. The reader
// filters: all objects we know are written, what a process may use is said in the root's
// allowed_cpuset and allowed_nodeset. <support> is left out: what a reader on this system can
// do is known to itself (HWLOC_THISSYSTEM).
//
// Equal machines give equal bytes. Text of the machine (names, infos) may hold anything; what XML
// or hwloc would not take is left out of it.
//
// hwloc 1.x has another format and refuses this one.
func XML(m *Machine) string {
	x := &writer{m: m}
	x.text(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	x.text(`<!DOCTYPE topology SYSTEM "hwloc2.dtd">` + "\n")
	x.open("topology")
	x.attr("version", "2.0")
	x.object(m.Root)
	x.latency(m.Latency)
	x.kinds(m.Kinds)
	x.close("topology")
	return x.w.String()
}

// writer writes elements as they come.
type writer struct {
	w     strings.Builder
	m     *Machine
	depth int
	inTag bool // "<name a="b"" is written, and not yet how it ends
	gp    int  // global numbers given
}

func (x *writer) text(s string) { x.w.WriteString(s) }

func (x *writer) indent() {
	for range x.depth {
		x.text("  ")
	}
}

// open begins an element; its attributes follow.
func (x *writer) open(name string) {
	if x.inTag {
		x.text(">\n")
	}
	x.indent()
	x.text("<" + name)
	x.inTag = true
	x.depth++
}

func (x *writer) close(name string) {
	x.depth--
	if x.inTag {
		x.text("/>\n")
	} else {
		x.indent()
		x.text("</" + name + ">\n")
	}
	x.inTag = false
}

// content ends the tag and puts a text into the element, which must be closed next.
func (x *writer) content(name, s string) {
	x.text(">" + s + "</" + name + ">\n")
	x.inTag = false
	x.depth--
}

func (x *writer) attr(name, value string) { x.text(" " + name + `="` + escape(value) + `"`) }

func (x *writer) number(name string, n int) { x.attr(name, strconv.Itoa(n)) }

func (x *writer) info(i Info) {
	x.open("info")
	x.attr("name", i.Name)
	x.attr("value", i.Value)
	x.close("info")
}

// escapes is the text that stands for a character: hwloc's own parser knows just these.
var escapes = map[byte]string{
	'&': "&amp;", '<': "&lt;", '>': "&gt;", '"': "&quot;", '\t': "&#9;", '\n': "&#10;", '\r': "&#13;",
}

// escape is s as an attribute's value. hwloc keeps printable ASCII only, in what it writes itself.
func escape(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`&<>"`, r) }) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if e, ok := escapes[c]; ok {
			b.WriteString(e)
		} else if c >= ' ' && c <= '~' {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// bitmap is a set as hwloc prints one: words of 32 bits, the highest first.
func bitmap(s idset.Set) string {
	if s.Empty() {
		return "0x0"
	}
	words := make([]uint32, s.Last()/32+1)
	for i := range s.All() {
		words[i/32] |= 1 << (i % 32)
	}
	var b strings.Builder
	for i, w := range slices.Backward(words) {
		fmt.Fprintf(&b, "0x%08x", w)
		if i > 0 {
			b.WriteByte(',')
		}
	}
	return b.String()
}

// maxLine is how many values hwloc's own writer puts into one element of a distance matrix, and
// its readers have room for.
const maxLine = 10

// latency is the NUMA distances: kind 5 is "from the OS" and "means latency".
func (x *writer) latency(l *Latency) {
	if l == nil || len(l.Nodes) < 2 {
		return
	}
	for _, n := range l.Nodes {
		if !x.m.Root.Nodes.Contains(n) {
			return // hwloc needs the node of each row
		}
	}
	x.open("distances2")
	x.attr("type", TypeNUMANode.String())
	x.number("nbobjs", len(l.Nodes))
	x.attr("kind", "5")
	x.attr("name", "NUMALatency")
	x.attr("indexing", "os")
	indexes, values := make([]uint64, len(l.Nodes)), make([]uint64, 0, len(l.Nodes)*len(l.Nodes))
	for i, n := range l.Nodes {
		indexes[i] = uint64(n)
		values = append(values, l.Values[i]...)
	}
	x.values("indexes", indexes)
	x.values("u64values", values)
	x.close("distances2")
}

func (x *writer) values(name string, values []uint64) {
	for line := range slices.Chunk(values, maxLine) {
		var b strings.Builder
		for _, v := range line {
			b.WriteString(strconv.FormatUint(v, 10))
			b.WriteByte(' ')
		}
		x.open(name)
		x.number("length", b.Len())
		x.content(name, b.String())
	}
}

// kinds of cores came with hwloc 2.4; older ones end their reading here.
func (x *writer) kinds(kinds []CPUKind) {
	for i, k := range kinds {
		x.open("cpukind")
		x.attr("cpuset", bitmap(k.CPUs))
		x.number("forced_efficiency", i)
		if len(k.Infos) == 0 {
			x.info(Info{Name: "CoreType", Value: k.Name})
		}
		for _, i := range k.Infos {
			x.info(i)
		}
		x.close("cpukind")
	}
}
