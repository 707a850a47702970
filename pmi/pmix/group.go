package pmix

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// maxGroups bounds the groups that ranks of this host have made.
const maxGroups = 64 << 10

// groupConstruct is a barrier of the members (MPI sessions). All get one context id. Members list all
// members: groups whose leaders add the others (libpmix 5 and later), who list none, are refused.
func (c *conn) groupConstruct(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	name := bfrops.One[string](r, bfrops.String)
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	if len(procs) == 0 || has(infos, "pmix.grp.btstrp") || has(infos, "pmix.grp.add") {
		return nil, errNotSupported
	}
	ctx, cancel := within(ctx, infos)
	defer cancel()
	all, st := c.s.party(ctx, c, procs)
	if st != success {
		return nil, st
	}
	id, st := c.s.contextID(c.id(), name, all)
	if st != success {
		return nil, st
	}
	if err := c.s.share(c.ns, c.rank, id, infos); err != success {
		return nil, err
	}
	if err := c.meet(ctx, all, groupTag(name), false); err != nil {
		return nil, err
	}
	c.s.joined(name, all, c.id())
	if err := c.takeTurn(ctx); err != nil {
		return nil, err
	}
	w := c.writer()
	w.Status(int(success))
	major := majorVersion(c.version)
	if major >= 5 {
		bfrops.PutCounted(w, bfrops.ProcType, all.procs())
	}
	if major >= 6 {
		w.Group(bfrops.Bool, true)
	}
	w.Group(bfrops.Size, id)
	return w, nil
}

// groupTags bounds the different barriers of one set of members: each is remembered. Groups that
// share a tag and are made by several threads at once take turns.
const groupTags = 32

// groupTag keeps groups of the same members apart that threads of theirs make at one time, in
// different orders.
func groupTag(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "g" + strconv.Itoa(int(sum[0])%groupTags)
}

// groupKey is a member and a hash of the group's name and members.
type groupKey struct {
	id    int
	group [sha256.Size]byte
}

// contextID is the same for all members, since each has made as many groups of this name and
// these members before, and differs between groups: 62 bits of a hash need no one to hand them
// out. Small numbers are Open MPI's own.
func (s *Server) contextID(id int, name string, all party) (uint64, status) {
	mine := groupKey{id, sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", all[0].ns.Namespace, name, all.set()))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group[mine] == 0 && len(s.group) >= maxGroups {
		return 0, errOutOfResource
	}
	s.group[mine]++
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(mine.group[:], s.group[mine]))
	return binary.BigEndian.Uint64(sum[:])>>2 | 1<<61, success
}

// share puts what a member tells the others (pmix.grp.info; Open MPI its own number of the group)
// with what the member has committed, as values that belong to the group's context id.
func (s *Server) share(ns *namespace, rank int, id uint64, infos []bfrops.Info) status {
	told, _ := attribute(infos, "pmix.grp.info")
	array, _ := told.Data.(bfrops.Array)
	context := info("pmix.grp.ctxid", bfrops.Size, id)
	context.Flags = bfrops.InfoQualifier
	var pairs []bfrops.KVal
	for _, d := range array.Data {
		i, ok := d.(bfrops.Info)
		if !ok || i.Key == "pmix.procid" { // whose it is, which libpmix 6 says first
			continue
		}
		pairs = append(pairs, bfrops.KVal{Key: qualified, Value: bfrops.Value{Type: bfrops.DataArray, Data: bfrops.NewInfos(i, context)}})
	}
	if len(pairs) == 0 {
		return success
	}
	return s.add(ns, rank, [2][]bfrops.KVal{pairs, pairs}, false)
}

// groupDestruct has nothing to undo but that the group is known: it is its members' business.
func (c *conn) groupDestruct(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	name := bfrops.One[string](r, bfrops.String)
	if r.Err() != nil {
		return nil, r.Err()
	}
	c.s.quit(name, c.id())
	return nil, success
}

func majorVersion(version string) int {
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	return n
}
