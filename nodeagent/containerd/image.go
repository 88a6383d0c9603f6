package containerd

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// LocalRegistry is where images are named that were imported: they are never
// looked for elsewhere.
const LocalRegistry = "escher.local/"

// snapshotter keeps the file systems of containers.
const snapshotter = "overlayfs"

// image returns the image of that reference, ready to be run, pulling it when
// it is not here. NotFound: nobody has it. Invalid: it is no reference.
func (r *Runtime) image(ctx context.Context, ref string) (client.Image, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "find image %q: %w; a reference is like docker.io/library/busybox:1.36", ref, err)
	}
	ref = named.String()
	img, err := r.client.GetImage(ctx, ref)
	if err == nil {
		return img, nil
	}
	if !errdefs.IsNotFound(err) {
		return nil, classify(err, "find image %s", ref)
	}
	if strings.HasPrefix(ref, LocalRegistry) {
		return nil, types.Errorf(types.NotFound, "find image %s: it is not on this node, and images of %s are not pulled", ref, LocalRegistry)
	}
	return r.pull(ctx, ref)
}

func (r *Runtime) pull(ctx context.Context, ref string) (client.Image, error) {
	img, err := r.client.Pull(ctx, ref, client.WithPullUnpack, client.WithPullSnapshotter(snapshotter))
	switch {
	case err == nil:
		return img, nil
	case errors.Is(err, docker.ErrInvalidAuthorization):
		// Registries answer so for what does not exist, too.
		return nil, types.Errorf(types.NotFound, "pull image %s: %w; check its name, and that it can be pulled without a password", ref, err)
	case errdefs.IsNotFound(err):
		return nil, types.Errorf(types.NotFound, "pull image %s: %w; check its name and tag", ref, err)
	}
	return nil, types.Errorf(types.Unavailable, "pull image %s: %w", ref, err)
}

// unpacked makes sure that the image's file system is there; pulled and
// imported images have it, unless a crash came between.
func (r *Runtime) unpacked(ctx context.Context, img client.Image) error {
	if err := img.Unpack(ctx, snapshotter); err != nil {
		return classify(err, "unpack image %s", img.Name())
	}
	return nil
}

// Load implements nodeagent.Images. To load again what is there is no error.
func (r *Runtime) Load(ctx context.Context, archive io.Reader) ([]nodeagent.Image, error) {
	records, err := r.client.Import(ctx, archive)
	if err != nil {
		return nil, classify(err, "import image")
	}
	all := make([]nodeagent.Image, 0, len(records))
	for _, record := range records {
		if err := r.unpacked(ctx, client.NewImage(r.client, record)); err != nil {
			return nil, err
		}
		all = append(all, nodeagent.Image{Name: record.Name, Digest: record.Target.Digest.String(), Created: record.CreatedAt})
	}
	return all, nil
}
