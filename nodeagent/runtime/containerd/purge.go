package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/types"
)

// purgeAtOnce is the number of containers removed concurrently.
const purgeAtOnce = 8

// Purge kills and removes every container of a cluster, on all nodes of this machine; an empty
// cluster means every container of the containerd namespace. If none remains in the namespace, it
// also removes its images, the namespace, and the cgroups named by it.
func Purge(ctx context.Context, address, namespace, cluster string) error {
	c, err := connect(address, namespace)
	if err != nil {
		return err
	}
	defer c.Close()
	r := &Runtime{conf: Config{Address: address, Namespace: namespace, Cluster: cluster}, client: c}
	if err := r.removeAll(ctx); err != nil {
		return err
	}
	left, err := c.ContainerService().List(ctx)
	if err != nil {
		return classify(err, "list containers of namespace %s", namespace)
	}
	if len(left) > 0 {
		return nil
	}
	if err := r.dropNamespace(ctx); err != nil {
		return classify(err, "remove namespace %s", namespace)
	}
	return DropCgroups(namespace)
}

func (r *Runtime) removeAll(ctx context.Context) error {
	var filters []string
	if r.conf.Cluster != "" {
		filters = append(filters, ours(r.conf.Cluster, ""))
	}
	records, err := r.client.ContainerService().List(ctx, filters...)
	if err != nil {
		return classify(err, "list containers of cluster %s", r.conf.Cluster)
	}
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(purgeAtOnce)
	for _, record := range records {
		all.Go(func() error { return r.Remove(ctx, record.ID) })
	}
	return all.Wait()
}

// dropNamespace removes the images, waits until their content is gone too, and removes the
// namespace.
func (r *Runtime) dropNamespace(ctx context.Context) error {
	service := r.client.ImageService()
	all, err := service.List(ctx)
	if err != nil {
		return err
	}
	for _, img := range all {
		if err := service.Delete(ctx, img.Name); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	if err := r.collectGarbage(ctx); err != nil {
		return err
	}
	err = r.client.NamespaceService().Delete(ctx, r.conf.Namespace)
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}

// collectGarbage waits until containerd has removed all unreferenced content. There is no such
// call: only the deletion of an image or a lease can wait for it.
func (r *Runtime) collectGarbage(ctx context.Context) error {
	service := r.client.LeasesService()
	all, err := service.List(ctx)
	if err != nil {
		return err
	}
	lease, err := service.Create(ctx, leases.WithRandomID())
	if err != nil {
		return err
	}
	for _, l := range append(all, lease) {
		if err := service.Delete(ctx, l, leases.SynchronousDelete); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// DropCgroups removes the cgroups that runc made above those of the containers, those of
// interrupted starts, and runc's directory of the namespace. All are in directories named by the
// namespace. Those in use stay, with an error.
func DropCgroups(namespace string) error {
	dirs := []string{filepath.Join(runcRoot, namespace), filepath.Join("/sys/fs/cgroup", namespace)}
	v1, err := filepath.Glob(filepath.Join("/sys/fs/cgroup", "*", namespace))
	if err != nil {
		return types.Errorf(types.Internal, "find cgroups of namespace %s: %w", namespace, err)
	}
	var errs []error
	for _, dir := range append(dirs, v1...) {
		inner, _ := filepath.Glob(filepath.Join(dir, "*")) // as well-formed as the first
		for _, path := range inner {
			_ = syscall.Rmdir(path) // a file of the kernel, or in use: then its parent stays
		}
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, types.Errorf(types.Unavailable, "remove cgroup %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}
