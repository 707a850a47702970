package control

import (
	"context"
	"fmt"

	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	"github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	kubeinformers "k8s.io/client-go/informers"
)

// RunMPIOperator runs MPI Operator's controller until ctx ends. clusterDomain is the operator's
// flag --cluster-domain, which is empty unless an administrator sets it.
func (a *API) RunMPIOperator(ctx context.Context, clusterDomain string) error {
	kube := kubeinformers.NewSharedInformerFactory(a.Kube, 0)
	jobs := externalversions.NewSharedInformerFactory(a.MPI, 0)
	core := kube.Core().V1()
	c, err := controller.NewMPIJobController(ctx, a.Kube, a.MPI, nil, nil, // of gang schedulers
		core.ConfigMaps(), core.Secrets(), core.Services(), kube.Batch().V1().Jobs(), core.Pods(), kube.Scheduling().V1().PriorityClasses(),
		jobs.Kubeflow().V2beta1().MPIJobs(),
		&options.ServerOption{ControllerRateLimit: 1000, ControllerBurst: 1000, ClusterDomain: clusterDomain})
	if err != nil {
		return fmt.Errorf("MPI Operator: %w", err)
	}
	kube.Start(ctx.Done())
	jobs.Start(ctx.Done())
	err = c.Run(2, ctx.Done())
	kube.Shutdown()
	jobs.Shutdown()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("MPI Operator: %w", err)
	}
	return nil
}
