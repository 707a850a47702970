package control

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is written on the way is refused to whom has read before; spec and status are apart.
func TestVersionsAndStatus(t *testing.T) {
	a, ctx := NewAPI(), t.Context()
	jobs := a.Kube.BatchV1().Jobs("n")
	made, err := jobs.Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}, metav1.CreateOptions{})
	check(t, err)
	if made.UID == "" || made.Spec.Selector == nil || *made.Spec.BackoffLimit != 6 {
		t.Errorf("made without identity or defaults: %+v", made)
	}
	stale := made.DeepCopy()
	made.Status.Active, made.Spec.Suspend = 1, new(bool)
	*made.Spec.Suspend = true
	made, err = jobs.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	check(t, err)
	if made.Status.Active != 1 || *made.Spec.Suspend {
		t.Errorf("an update of the status has changed the spec: %+v", made)
	}
	if _, err := jobs.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	made.Status.Active = 7
	*made.Spec.Suspend = true
	made, err = jobs.Update(ctx, made, metav1.UpdateOptions{})
	check(t, err)
	if made.Status.Active != 1 || !*made.Spec.Suspend {
		t.Errorf("an update of the spec has changed the status: %+v", made)
	}
}

// A pod that is deleted is there until kubelet says that it has ended.
func TestGracefulDeletion(t *testing.T) {
	a, ctx := NewAPI(), t.Context()
	pods := a.Kube.CoreV1().Pods("n")
	p, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}}, metav1.CreateOptions{})
	check(t, err)
	check(t, pods.Delete(ctx, p.Name, metav1.DeleteOptions{}))
	p, err = pods.Get(ctx, p.Name, metav1.GetOptions{})
	check(t, err)
	if p.DeletionTimestamp == nil {
		t.Error("nothing says that it is to end")
	}
	now := int64(0)
	check(t, pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	if _, err = pods.Get(ctx, p.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// A watch sees everything in order, however late it is and however many events there are.
func TestWatchMissesNothing(t *testing.T) {
	a := NewAPI()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	maps := a.Kube.CoreV1().ConfigMaps("n")
	c, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	check(t, err)
	_, err = a.Kube.CoreV1().ConfigMaps("other").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	check(t, err)
	const updates = 500 // far more than the 100 that client-go's fake takes
	for range updates {
		c, err = maps.Update(ctx, c, metav1.UpdateOptions{})
		check(t, err)
	}
	check(t, maps.Delete(ctx, "c", metav1.DeleteOptions{}))
	w, err := maps.Watch(ctx, metav1.ListOptions{})
	check(t, err)
	var kinds []watch.EventType
	for len(kinds) < updates+2 {
		select {
		case e := <-w.ResultChan():
			kinds = append(kinds, e.Type)
		case <-ctx.Done():
			t.Fatalf("%d events", len(kinds))
		}
	}
	if kinds[0] != watch.Added || kinds[1] != watch.Modified || kinds[updates+1] != watch.Deleted {
		t.Errorf("events %v ... %v", kinds[:2], kinds[updates+1])
	}
	w.Stop()
	a.Wait()
}
