package reach

import (
	"slices"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/hosts"
)

// Members beside a service's records are those at other addresses; records that no member has are strange.
func TestMembersWithoutARecord(t *testing.T) {
	records := func(names ...string) (list []hosts.Wanted) {
		for _, n := range names {
			list = append(list, hosts.Wanted{Entry: hostlist.Entry{Name: n}, Bare: true})
		}
		return list
	}
	members := map[string]*apiv1.Peer{
		"a": {Address: "10.0.0.1:7611", State: "alive"}, "b": {Address: "[::ffff:10.0.0.2]:7611", State: "alive"}, "c": {Address: "10.0.0.9:7000", State: "alive"},
		"d": {Address: "10.0.0.3:7611", State: "suspect"}, "e": {Address: "10.0.0.4:7611", State: "left"}, "f": {Address: "[fd00::5]:7611", State: "alive"},
		"g": {Address: "nonsense", State: "alive"}, "h": {Address: "10.0.0.8:7611", State: "alive"}, "i": {Address: "10.0.0.8:7612", State: "alive"}}
	for _, tt := range []struct {
		records       []hosts.Wanted
		strange, news string
	}{
		{records("10.0.0.1", "10.0.0.2"), "", "10.0.0.8 10.0.0.9"},
		{records("10.0.0.1", "10.0.0.3", "10.0.0.8"), "10.0.0.3", "10.0.0.2 10.0.0.9"},
		{records("fd00::5", "fd00::6"), "fd00::6", ""},
	} {
		var strange, news []string
		for _, w := range unlisted(tt.records, members) {
			strange = append(strange, w.Entry.Name)
		}
		for _, a := range newMembers(tt.records, members) {
			news = append(news, a.String())
		}
		if strings.Join(strange, " ") != tt.strange || strings.Join(news, " ") != tt.news {
			t.Errorf("beside %v strange are %q, want %q; new are %q, want %q", tt.records, strange, tt.strange, news, tt.news)
		}
	}
}

func TestMemberHosts(t *testing.T) {
	var got []string
	for _, h := range memberHosts(map[string]*apiv1.Peer{
		"a": {Name: "w2", Address: "10.0.0.2:5000", State: "alive"},
		"b": {Name: "n", Address: "10.0.0.3:5001", State: "suspect"},
		"c": {Name: "n", Address: "10.0.0.3:5000", State: "alive"},
		"d": {Name: "old", Address: "10.0.0.4:5000", State: "left"},
		"e": {Name: "bad", Address: "nonsense", State: "alive"},
	}, &apiv1.HelloReply{Name: "w10", Address: "10.0.0.10:5000", Incarnation: "x"}) {
		got = append(got, h.Entry.Name+" "+h.Fixed[0].String())
	}
	if want := []string{"n 10.0.0.3:5000", "n/2 10.0.0.3:5001", "w2 10.0.0.2:5000", "w10 10.0.0.10:5000"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
