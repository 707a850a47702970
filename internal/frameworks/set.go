package frameworks

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Set is the frameworks whose variables ranks get. The zero value is none.
type Set uint

// The frameworks. Auto is those whose variables disturb no program that does not read them.
const (
	Torch Set = 1 << iota
	JAX
	TensorFlow
	Horovod
	JAXAlways   // with JAX: also where Open MPI may take its variable for a launcher's
	HorovodGloo // with Horovod: it meets by Gloo, MPI or not
	Torchrun    // with Torch: what torchrun gives its processes besides

	None Set = 0
	Auto     = Torch | JAX | Horovod
)

// words are what users call them.
var words = []struct {
	word string
	set  Set
}{{"auto", Auto}, {"none", None}, {"torch", Torch}, {"jax", JAX | JAXAlways}, {"tf", TensorFlow}, {"horovod", Horovod | HorovodGloo}}

// Words are what Parse reads, for help and completion.
func Words() []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = w.word
	}
	return list
}

// Parse reads what a user asked for. Each text holds words with commas between; "none" is alone.
func Parse(texts []string) (s Set, err error) {
	none, count := false, 0
	for _, text := range texts {
		for word := range strings.SplitSeq(text, ",") {
			i := slices.Index(Words(), word)
			if i < 0 {
				return None, fmt.Errorf("%.50q is no framework; write one of %s", word, strings.Join(Words(), ", "))
			}
			s |= words[i].set
			none = none || word == "none"
			count++
		}
	}
	if none && count > 1 {
		return None, fmt.Errorf("none stands alone; leave it out, or the others")
	}
	return s, nil
}

// Ports is how many ports on rank 0's host the set's frameworks need, TensorFlow's apart: each of
// its ranks has one on its own host.
func (s Set) Ports() int {
	return bits.OnesCount(uint(s & (Torch | JAX)))
}
