package apiv1

import (
	"fmt"

	"github.com/mpiup/mpiup/internal/layout"
)

// A Machine is a host's layout as it travels: columns of small numbers, some 900 bytes for 128
// hardware threads. What comes from outside is checked before anything is made of it.

// columns are each kind's numbers in a message, 0 where a thread is in none; else one more than the object's.
func (m *Machine) columns() map[layout.Kind]*[]uint32 {
	return map[layout.Kind]*[]uint32{layout.Core: &m.Core, layout.L1: &m.L1, layout.L2: &m.L2, layout.L3: &m.L3, layout.NUMA: &m.Numa, layout.Package: &m.Package}
}

var layoutKinds = layout.Kinds()[1:] // a hardware thread needs no number

// PackMachine makes a message of a layout; nil of none.
func PackMachine(l *layout.Layout) *Machine {
	if l == nil {
		return nil
	}
	m := &Machine{Exclusive: l.Exclusive}
	columns := m.columns()
	for place := range l.Len() {
		m.Cpu = append(m.Cpu, uint32(l.CPU(place)))
		for _, k := range layoutKinds {
			if len(l.Objects(k)) > 0 {
				*columns[k] = append(*columns[k], uint32(l.Of(k, place)+1))
			}
		}
	}
	return m
}

// UnpackMachine makes a layout of a message; nil of none.
func UnpackMachine(m *Machine) (*layout.Layout, error) {
	if m == nil {
		return nil, nil
	}
	if len(m.Cpu) > layout.MaxThreads {
		return nil, fmt.Errorf("a machine of %d CPUs; %d are possible", len(m.Cpu), layout.MaxThreads)
	}
	threads, columns := make([]layout.Thread, len(m.Cpu)), m.columns()
	for i, cpu := range m.Cpu {
		threads[i].CPU = int(min(cpu, layout.MaxThreads)) // which New refuses
	}
	for _, k := range layoutKinds {
		numbers := *columns[k]
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
