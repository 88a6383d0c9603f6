package containerd

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

const (
	// labelWorkdir is the image of a container's workdir.
	labelWorkdir = "escher/workdir"
	// labelWorkdirFiles keeps the copy of the workdir from containerd's garbage collector for as
	// long as the record of the container exists.
	labelWorkdirFiles = "containerd.io/gc.ref.snapshot." + snapshotter + "/workdir"
	// labelUsed marks a use of an image. containerd stores the time itself.
	labelUsed = "escher/used"
	// usedParts is the precision of the last use, in parts of KeepWorkdir: an hour of 7 days. Each
	// mark is a write.
	usedParts = 7 * 24
	// anyUser lets every user of the container write in the workdir, as in its directories.
	anyUser = 0o777
	// maxOptions is the most bytes of the options of one mount: a page of the kernel.
	maxOptions = 4095
)

// workdirKey names a container's copy of its workdir.
func workdirKey(id string) string { return id + "-workdir" }

// workdir makes the container's copy of its workdir, and returns its mount; nil if it has none. The
// copy lasts until release if no container refers to it. The error is containerd's AlreadyExists if
// the container exists: it may use the copy.
func (r *Runtime) workdir(ctx context.Context, c nodeagent.Container) (leased context.Context, m *specs.Mount, release func(), err error) {
	if c.Workdir == nil {
		return ctx, nil, func() {}, nil
	}
	if _, err := r.client.ContainerService().Get(ctx, c.ID); !errdefs.IsNotFound(err) {
		if err == nil {
			err = errdefs.ErrAlreadyExists
		}
		return ctx, nil, nil, err
	}
	leased, done, err := r.client.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(readLease))
	if err != nil {
		return ctx, nil, nil, classify(err, "make the workdir of container %s", c.ID)
	}
	release = func() { _ = done(context.WithoutCancel(ctx)) } // It also expires by itself.
	m, err = r.workdirMount(leased, c)
	if err != nil {
		release()
	}
	return leased, m, release, err
}

func (r *Runtime) workdirMount(ctx context.Context, c nodeagent.Container) (*specs.Mount, error) {
	img, err := r.workdirImage(ctx, c.Workdir.Image)
	if err != nil {
		return nil, err
	}
	config, err := configOf(ctx, img)
	if err != nil {
		return nil, err
	}
	mounts, err := r.prepare(ctx, workdirKey(c.ID), made{source: img, parent: identity.ChainID(config.RootFS.DiffIDs).String()})
	if err != nil {
		return nil, err
	}
	if len(mounts) != 1 {
		return nil, types.Errorf(types.Internal, "make the workdir of container %s: it has %d mounts", c.ID, len(mounts))
	}
	if err := os.Chmod(upperOf(mounts[0]), anyUser); err != nil {
		return nil, types.Errorf(types.Unavailable, "make the workdir of container %s: %w", c.ID, err)
	}
	if n := len(strings.Join(mounts[0].Options, ",")); n > maxOptions {
		return nil, types.Errorf(types.Invalid, "mount the workdir of container %s: its options have %d bytes, and the kernel takes %d: run containerd with a root directory of a shorter path", c.ID, n, maxOptions)
	}
	return &specs.Mount{Type: mounts[0].Type, Source: mounts[0].Source, Options: mounts[0].Options, Destination: c.Workdir.Target}, nil
}

// upperOf returns the directory of the changes of a snapshot.
func upperOf(m mount.Mount) string {
	for _, o := range m.Options {
		if dir, ok := strings.CutPrefix(o, "upperdir="); ok {
			return dir
		}
	}
	return m.Source // of a bind mount
}

// workdirImage returns the image of a workdir, and marks its use.
func (r *Runtime) workdirImage(ctx context.Context, name string) (client.Image, error) {
	record, err := r.client.ImageService().Get(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil, types.Errorf(types.NotFound, "find workdir %s: it is not on this node", name)
	}
	if err != nil {
		return nil, classify(err, "find workdir %s", name)
	}
	if time.Since(record.UpdatedAt) > r.conf.KeepWorkdir/usedParts {
		if err := r.markUsed(ctx, name); err != nil {
			return nil, classify(err, "mark the use of workdir %s", name)
		}
	}
	return client.NewImage(r.client, record), nil
}

func (r *Runtime) markUsed(ctx context.Context, name string) error {
	mark := images.Image{Name: name, Labels: map[string]string{labelUsed: formatTime(time.Now())}}
	_, err := r.client.ImageService().Update(ctx, mark, "labels."+labelUsed)
	return err
}

// withWorkdir adds the mount of the workdir, before the mounts below it.
func withWorkdir(spec *oci.Spec, m *specs.Mount) {
	if m == nil {
		return
	}
	at := slices.IndexFunc(spec.Mounts, func(x specs.Mount) bool { return strings.HasPrefix(x.Destination, m.Destination+"/") })
	if at < 0 {
		at = len(spec.Mounts)
	}
	spec.Mounts = slices.Insert(spec.Mounts, at, *m)
}

// withWorkdirLabels adds the labels of the workdir of a container.
func withWorkdirLabels(c nodeagent.Container, labels map[string]string) map[string]string {
	if c.Workdir != nil {
		labels[labelWorkdir], labels[labelWorkdirFiles] = c.Workdir.Image, workdirKey(c.ID)
	}
	return labels
}

// Lacking implements nodeagent.Workdirs.
func (r *Runtime) Lacking(ctx context.Context, layers []string) ([]string, error) {
	lacking := []string{}
	for _, l := range layers {
		_, err := r.client.ContentStore().Info(ctx, digest.Digest(l))
		switch {
		case errdefs.IsNotFound(err):
			lacking = append(lacking, l)
		case err != nil:
			return nil, classify(err, "look for layer %s", l)
		}
	}
	return lacking, nil
}

// Layers implements nodeagent.Workdirs.
func (r *Runtime) Layers(ctx context.Context, name string) ([]string, error) {
	img, err := r.workdirImage(ctx, name)
	if err != nil {
		return nil, err
	}
	manifest, err := images.Manifest(ctx, r.client.ContentStore(), img.Target(), platforms.All)
	if err != nil {
		return nil, incomplete(err, name)
	}
	layers := make([]string, len(manifest.Layers))
	for i, l := range manifest.Layers {
		layers[i] = l.Digest.String()
	}
	return layers, nil
}

// Export implements nodeagent.Workdirs.
func (r *Runtime) Export(ctx context.Context, name string, layers []string, w io.Writer) error {
	img, err := r.workdirImage(ctx, name)
	if err != nil {
		return err
	}
	err = r.client.Export(ctx, w, archive.WithImages([]images.Image{img.Metadata()}), archive.WithSkipDockerManifest(), archive.WithPlatform(platforms.All),
		archive.WithBlobFilter(func(d ocispec.Descriptor) bool {
			return !images.IsLayerType(d.MediaType) || slices.Contains(layers, d.Digest.String())
		}))
	if err != nil {
		return classify(err, "export workdir %s", name)
	}
	return nil
}

// checkWorkdir refuses a loaded image that is not the workdir that its name says: tasks rely on the
// digest. It also deletes images of workdirs that are no longer used.
func (r *Runtime) checkWorkdir(ctx context.Context, record images.Image) error {
	switch {
	case !isWorkdir(record.Name):
		return nil
	case record.Name != pinned(record.Name, record.Target.Digest):
		return types.Errorf(types.Invalid, "load images: %s has digest %s: name it by its digest", record.Name, record.Target.Digest)
	}
	return r.dropUnused(ctx)
}

// dropWorkdir deletes the image of a workdir that could not be loaded completely: it would seem to
// be here.
func (r *Runtime) dropWorkdir(ctx context.Context, name string) {
	if isWorkdir(name) {
		_ = r.client.ImageService().Delete(context.WithoutCancel(ctx), name) // The caller returns the first error.
	}
}

func isWorkdir(name string) bool { return strings.HasPrefix(name, types.WorkdirRepository+"@") }

// dropUnused deletes the images of workdirs that no container uses and none used for long.
func (r *Runtime) dropUnused(ctx context.Context) error {
	all, err := r.client.ImageService().List(ctx, "name~=^"+types.WorkdirRepository+"@")
	if err != nil {
		return classify(err, "list workdirs")
	}
	for _, img := range all {
		if time.Since(img.UpdatedAt) < r.conf.KeepWorkdir {
			continue
		}
		users, err := r.client.ContainerService().List(ctx, fmt.Sprintf("labels.%q==%q", labelWorkdir, img.Name))
		if err != nil {
			return classify(err, "list the containers of workdir %s", img.Name)
		}
		if len(users) > 0 {
			err = r.markUsed(ctx, img.Name)
		} else {
			err = r.client.ImageService().Delete(ctx, img.Name)
		}
		if err != nil && !errdefs.IsNotFound(err) {
			return classify(err, "drop workdir %s", img.Name)
		}
	}
	return nil
}
