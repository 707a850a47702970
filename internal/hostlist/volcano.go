package hostlist

import "strings"

// VolcanoTasks are the names of the pods of a Volcano job by task, of VC_<TASK>_HOSTS in an environment: commas or spaces
// stand between them (Volcano's svc plugin, which sets the variables, writes commas).
func VolcanoTasks(environ []string) map[string][]string {
	tasks := map[string][]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		task, ok := strings.CutPrefix(name, "VC_")
		if !ok {
			continue
		}
		if task, ok = strings.CutSuffix(task, "_HOSTS"); ok && task != "" {
			tasks[task] = strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return tasks
}
