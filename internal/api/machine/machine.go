// Package machine is a host's layout as it travels: columns of small numbers, some 900 bytes for 128
// hardware threads. What comes from outside is checked before anything is made of it.
package machine

import (
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/layout"
)

// column is one kind's numbers in a message, 0 where a thread is in none; else one more than the object's.
func column(m *apiv1.Machine, k layout.Kind) *[]uint32 {
	switch k {
	case layout.Core:
		return &m.Core
	case layout.L1:
		return &m.L1
	case layout.L2:
		return &m.L2
	case layout.L3:
		return &m.L3
	case layout.NUMA:
		return &m.Numa
	}
	return &m.Package
}

var kinds = layout.Kinds()[1:] // a hardware thread needs no number

// Pack makes a message of a layout; nil of none.
func Pack(l *layout.Layout) *apiv1.Machine {
	if l == nil {
		return nil
	}
	m := &apiv1.Machine{Exclusive: l.Exclusive}
	for place := range l.Len() {
		m.Cpu = append(m.Cpu, uint32(l.CPU(place)))
		for _, k := range kinds {
			if len(l.Objects(k)) > 0 {
				c := column(m, k)
				*c = append(*c, uint32(l.Of(k, place)+1))
			}
		}
	}
	return m
}

// Unpack makes a layout of a message; nil of none.
func Unpack(m *apiv1.Machine) (*layout.Layout, error) {
	if m == nil {
		return nil, nil
	}
	if len(m.Cpu) > layout.MaxThreads {
		return nil, fmt.Errorf("a machine of %d CPUs; %d are possible", len(m.Cpu), layout.MaxThreads)
	}
	threads := make([]layout.Thread, len(m.Cpu))
	for i, cpu := range m.Cpu {
		threads[i].CPU = int(min(cpu, layout.MaxThreads)) // which New refuses
	}
	for _, k := range kinds {
		numbers := *column(m, k)
		if len(numbers) != 0 && len(numbers) != len(m.Cpu) {
			return nil, fmt.Errorf("a machine of %d CPUs with %d numbers of its %s", len(m.Cpu), len(numbers), k)
		}
		for i := range threads {
			threads[i].In[k] = -1
			if len(numbers) > 0 {
				threads[i].In[k] = int(numbers[i]) - 1
			}
		}
	}
	l, err := layout.New(threads)
	if err == nil {
		l.Exclusive = m.Exclusive
	}
	return l, err
}
