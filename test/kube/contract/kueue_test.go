package contract

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// mayUpdateJobsStatus says whether rules allow what the operator does as it resumes a launcher's Job: UpdateStatus
// (pkg/controller/mpi_job_controller.go, "We are unsuspending").
func mayUpdateJobsStatus(rules []rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.APIGroups, "batch") && slices.Contains(r.Resources, "jobs/status") && slices.Contains(r.Verbs, "update")
	})
}

// The file gives MPI Operator's account the right that its own role lacks, and no other. When a newer operator has it, the file and what
// docs/preemption.md says go.
func TestOperatorsRightToResume(t *testing.T) {
	operator := upstream(t, mpiOperator, "pkg/controller/mpi_job_controller.go")
	if !strings.Contains(string(operator), "Jobs(namespace).UpdateStatus(") {
		t.Error("the operator updates no Job's status any more: the file is not needed")
	}
	role := decode[rbacv1.ClusterRole](t, documents(upstream(t, mpiOperator, "manifests/base/cluster-role.yaml"))[0])
	if role.Name != "mpi-operator" || mayUpdateJobsStatus(role.Rules) {
		t.Errorf("the operator's own role %s has the right: the file is not needed", role.Name)
	}

	docs := example(t, "kueue/mpi-operator-jobs-status.yaml")
	ours, binding := decode[rbacv1.ClusterRole](t, docs[0]), decode[rbacv1.ClusterRoleBinding](t, docs[1])
	if !mayUpdateJobsStatus(ours.Rules) || len(ours.Rules) != 1 || len(ours.Rules[0].Verbs) != 1 || len(ours.Rules[0].Resources) != 1 {
		t.Errorf("the role allows %+v", ours.Rules)
	}
	var account struct{ Metadata struct{ Name string } }
	must(t, yaml.Unmarshal(upstream(t, mpiOperator, "manifests/base/service-account.yaml"), &account))
	var overlay struct{ Namespace string }
	must(t, yaml.Unmarshal(upstream(t, mpiOperator, "manifests/overlays/standalone/kustomization.yaml"), &overlay))
	want := rbacv1.Subject{Kind: "ServiceAccount", Name: account.Metadata.Name, Namespace: overlay.Namespace}
	if binding.RoleRef.Name != ours.Name || !slices.Equal(binding.Subjects, []rbacv1.Subject{want}) {
		t.Errorf("the role %s is bound to %+v, want %+v", binding.RoleRef.Name, binding.Subjects, want)
	}
}
