package kvs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/test/cost"
)

func dump(data []byte) (string, error) {
	var out strings.Builder
	err := forEach(data, func(owner int, key string, v value) error {
		fmt.Fprintf(&out, "%d %q %q %d\n", owner, key, v.data, v.put)
		return nil
	})
	return out.String(), err
}

func TestContributionBytes(t *testing.T) {
	b := appendPuts(appendHeader(nil), 3, 300)
	b = appendEntry(b, 3, "key", []byte("value"))
	b = appendEntry(b, 300, "", nil)
	const golden = "0103" + "08504d495f70757473" + "02ac02" + "03036b65790576616c7565ac020000"
	if got := hex.EncodeToString(b); got != golden {
		t.Errorf("got %s, want %s", got, golden)
	}
	got, err := dump(b)
	if want := "3 \"key\" \"value\" 300\n300 \"\" \"\" 300\n"; err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	const puts, firstEntry = 14, 25 // a cut here leaves a whole contribution
	for n := 2; n < len(b); n++ {
		if _, err := dump(b[:n]); n != puts && n != firstEntry && !errors.Is(err, errCut) {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func TestForeignRanksAreRefused(t *testing.T) {
	e, err := New(Run{Upstream: nowhere{}}).Add(Job{KVSName: "j", Size: 4, Local: []int{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(nil)
	f, _, _ := e.e.fences.enter(0, idset.Set{}, "", true)
	for owner, ok := range map[int]bool{0: false, 2: true, 3: true, 4: false} {
		err := e.check(f, [][]byte{appendEntry(appendHeader(nil), owner, "k", nil)})
		if (err == nil) != ok {
			t.Errorf("owner %d: %v", owner, err)
		}
	}
	e.e.fences.end(f)
}

type nowhere struct{ Upstream }

// What another host sends must neither crash nor get in half-checked, and what decodes encodes
// to the same entries.
func FuzzContribution(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Add(appendEntry(appendEntry(appendHeader(nil), 2, "key", []byte("value")), 3, "k", nil))
	f.Add(appendEntry(appendPuts(appendHeader(nil), 2, 1<<40), 2, "key", []byte("value")))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		defer cost.Watch(t, cost.Parser, len(data))()
		s := newStore(0, 4, []int{0, 1}, DefaultLimits())
		_ = s.merge(nil, [][]byte{data})
		again := appendHeader(nil)
		err := forEach(data, func(owner int, key string, v value) error {
			if len(again) == headerLen {
				again = appendPuts(again, owner, v.put)
			}
			again = appendEntry(again, owner, key, v.data)
			return nil
		})
		if err != nil || len(data) == 0 {
			return
		}
		a, _ := dump(data)
		b, err := dump(again)
		if err != nil || a != b {
			t.Errorf("%q, %v", b, err)
		}
	})
}
