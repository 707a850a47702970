package logs

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// site is whose log it is, by its lines. A launcher's proxies are what another one started.
type site struct{ kube, slurm, mpirun, proxies bool }

func (s *site) see(text string) {
	s.kube, s.slurm = s.kube || has(text, "kube"), s.slurm || has(text, "slurm")
	s.mpirun, s.proxies = s.mpirun || has(text, "mpirun"), s.proxies || has(text, "proxies")
}

// advice is what to do about a kind, by the line that says it, where the log is from.
func (s site) advice(k verdict.Kind, line string) (list []string) {
	if s.slurm {
		list = append(list, advices()["slurm"][k]...)
	} else if s.mpirun && !s.kube {
		list = append(list, advices()["plain"][k]...)
	}
	for _, do := range verdict.Do(k, line, !s.kube) {
		list = append(list, strings.ReplaceAll(do, "`", ""))
	}
	if len(list) == 0 { // for a kind of pods alone
		return advices()["plain"][k]
	}
	return list
}

//go:embed advice.txt
var adviceText string

// advices are those of advice.txt, by whose log it is and by kind.
var advices = sync.OnceValue(func() map[string]map[verdict.Kind][]string {
	all := map[string]map[verdict.Kind][]string{"slurm": {}, "plain": {}}
	for _, c := range pattern.Rows(adviceText, 3) {
		all[c[0]][verdict.Kind(c[1])] = append(all[c[0]][verdict.Kind(c[1])], c[2])
	}
	return all
})
