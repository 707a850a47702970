package look

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// unpickle reads what Python's pickle writes of plain data: None, booleans, numbers, text, bytes, lists, tuples and dictionaries.
//
//	0x80 2   } q 0   ( X 7 0 0 0 e n t r i e s   ...   u .
//	PROTO   {} memo  MARK  "entries"            SETITEMS STOP
//
// A pickle is a program for a small machine with a stack. Of its instructions those that name a class or call one (GLOBAL,
// REDUCE and their kin) are errors here, so reading one runs nothing. What an input may cost is bounded: by Limit values
// and notes in the memo, whatever lengths it claims. A value may hold itself, as in Python: readers walk only as deep as they expect.
//
// It is a function of its argument and may be called by any number of goroutines.

// Limit is how many values a pickle may make.
const Limit = 1 << 20

// pickledList is a list or a tuple.
type pickledList struct{ Items []any }

// pickledDict is a dictionary. Keys are text, int64, float64, bool or nil.
type pickledDict struct{ Of map[any]any }

// Get is the value of a key that is text; nil: there is none, or d is nil.
func (d *pickledDict) Get(key string) any {
	if d == nil {
		return nil
	}
	return d.Of[key]
}

type mark struct{}

// machine reads one pickle.
type machine struct {
	in    []byte
	stack []any
	memo  map[uint32]any
	made  int
}

var errShort = errors.New("a pickle that ends early")

// Decode is the one value of a pickle.
func unpickle(in []byte) (any, error) {
	m := &machine{in: in, memo: map[uint32]any{}}
	for {
		op, err := m.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == '.' {
			if len(m.stack) != 1 {
				return nil, fmt.Errorf("a pickle that leaves %d values", len(m.stack))
			}
			if _, open := m.stack[0].(mark); open {
				return nil, errors.New("a pickle that leaves a mark")
			}
			return m.stack[0], nil
		}
		if err := m.step(op[0]); err != nil {
			return nil, err
		}
		if m.made > Limit {
			return nil, fmt.Errorf("a pickle of more than %d values", Limit)
		}
	}
}

// The instructions by name, as Python's pickletools has them.
const (
	opProto, opFrame                         = 0x80, 0x95
	opTuple1, opTuple2, opTuple3             = 0x85, 0x86, 0x87
	opTrue, opFalse, opLong1                 = 0x88, 0x89, 0x8a
	opShortUnicode, opUnicode8, opBytes8     = 0x8c, 0x8d, 0x8e
	opMemoize                                = 0x94
	opBinUnicode, opShortBytes, opBytes      = 'X', 'C', 'B'
	opBinput, opLongBinput, opGet, opLongGet = 'q', 'r', 'h', 'j'
)

func (m *machine) step(op byte) error {
	switch op {
	case opProto:
		_, err := m.take(1)
		return err
	case opFrame:
		_, err := m.take(8)
		return err
	case 'N':
		m.push(nil)
	case opTrue, opFalse:
		m.push(op == opTrue)
	case 'J', 'K', 'M', opLong1, 'G':
		return m.number(op)
	case opBinUnicode, opShortUnicode, opUnicode8, opShortBytes, opBytes, opBytes8:
		return m.text(op)
	case '(':
		m.push(mark{})
	case ']', ')':
		m.push(&pickledList{})
	case '}':
		m.push(&pickledDict{Of: map[any]any{}})
	case opTuple1, opTuple2, opTuple3:
		items, err := m.pop(int(op-opTuple1) + 1)
		m.push(&pickledList{Items: items})
		return err
	case 't', 'l', 'd', 'e', 'u':
		return m.marked(op)
	case 'a', 's':
		n := 1
		if op == 's' {
			n = 2
		}
		items, err := m.pop(n)
		if err != nil {
			return err
		}
		return m.fill(items)
	case opBinput, opLongBinput, opMemoize, opGet, opLongGet:
		return m.remember(op)
	default:
		return fmt.Errorf("instruction %#x of a pickle, which is not for plain data", op)
	}
	return nil
}

func (m *machine) push(v any) {
	m.made++
	m.stack = append(m.stack, v)
}

// take is the next n bytes.
func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.in)) {
		return nil, errShort
	}
	b := m.in[:n]
	m.in = m.in[n:]
	return b, nil
}

// length is a number of so many bytes, the lowest first.
func (m *machine) length(bytes uint64) (uint64, error) {
	b, err := m.take(bytes)
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:]), err
}

func (m *machine) number(op byte) error {
	size := map[byte]uint64{'J': 4, 'K': 1, 'M': 2, 'G': 8, opLong1: 1}[op]
	n, err := m.length(size)
	if err != nil {
		return err
	}
	switch op {
	case 'J':
		m.push(int64(int32(uint32(n))))
	case 'G':
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], n)
		m.push(math.Float64frombits(binary.BigEndian.Uint64(b[:])))
	case opLong1:
		if n > 8 {
			return fmt.Errorf("a number of %d bytes", n)
		}
		v, err := m.length(n)
		if err != nil {
			return err
		}
		if n == 0 {
			n = 8
		}
		shift := 64 - 8*n
		m.push(int64(v<<shift) >> shift)
	default:
		m.push(int64(n))
	}
	return nil
}

func (m *machine) text(op byte) error {
	size := map[byte]uint64{opBinUnicode: 4, opBytes: 4, opUnicode8: 8, opBytes8: 8, opShortUnicode: 1, opShortBytes: 1}[op]
	n, err := m.length(size)
	if err != nil {
		return err
	}
	b, err := m.take(n)
	m.push(string(b))
	return err
}

// pop takes n values off the stack, of which none is a mark.
func (m *machine) pop(n int) ([]any, error) {
	if len(m.stack) < n {
		return nil, errors.New("a pickle that takes what is not there")
	}
	items := append([]any(nil), m.stack[len(m.stack)-n:]...)
	for _, v := range items {
		if _, is := v.(mark); is {
			return nil, errors.New("a pickle that takes a mark for a value")
		}
	}
	m.stack = m.stack[:len(m.stack)-n]
	return items, nil
}

// marked makes or fills a container with what was put on the stack since the last mark.
func (m *machine) marked(op byte) error {
	n := 0
	for ; ; n++ {
		if n == len(m.stack) {
			return errors.New("a pickle without the mark that it goes back to")
		}
		if _, is := m.stack[len(m.stack)-1-n].(mark); is {
			break
		}
	}
	items, err := m.pop(n)
	if err != nil {
		return err
	}
	m.stack = m.stack[:len(m.stack)-1]
	switch op {
	case 't', 'l':
		m.push(&pickledList{Items: items})
		return nil
	case 'd':
		m.push(&pickledDict{Of: map[any]any{}})
	}
	return m.fill(items)
}

// fill adds items to the container on top of the stack.
func (m *machine) fill(items []any) error {
	if len(m.stack) == 0 {
		return errors.New("a pickle that fills nothing")
	}
	m.made += len(items)
	switch c := m.stack[len(m.stack)-1].(type) {
	case *pickledList:
		c.Items = append(c.Items, items...)
	case *pickledDict:
		if len(items)%2 != 0 {
			return errors.New("a key without a value in a pickle")
		}
		for i := 0; i < len(items); i += 2 {
			switch items[i].(type) {
			case *pickledList, *pickledDict: // a tuple may be a key in Python; nothing that is read here has one
				return errors.New("a key of a pickle that is no plain value")
			}
			c.Of[items[i]] = items[i+1]
		}
	default:
		return errors.New("a pickle that fills what is no container")
	}
	return nil
}

// remember puts the top of the stack into the memo, or pushes what is there.
func (m *machine) remember(op byte) error {
	at := uint64(len(m.memo))
	var err error
	switch op {
	case opBinput, opGet:
		at, err = m.length(1)
	case opLongBinput, opLongGet:
		at, err = m.length(4)
	}
	if err != nil {
		return err
	}
	if op == opGet || op == opLongGet {
		v, there := m.memo[uint32(at)]
		if !there {
			return fmt.Errorf("a pickle that asks for note %d, which it has not made", at)
		}
		m.push(v)
		return nil
	}
	if len(m.stack) == 0 {
		return errors.New("a pickle that notes nothing")
	}
	m.made++
	m.memo[uint32(at)] = m.stack[len(m.stack)-1]
	return nil
}
