package containerd

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/escher-sched/escher/types"
)

// LocalRegistry is where images are named that were loaded: they are never
// looked for elsewhere.
const LocalRegistry = "escher.local/"

// snapshotter keeps the file systems of containers.
const snapshotter = "overlayfs"

// parse returns a reference in full. Invalid: it is none.
func parse(ref string) (reference.Named, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "find image %q: %w; a reference is like docker.io/library/busybox:1.36", ref, err)
	}
	return named, nil
}

// image returns the image of that reference, ready to be run, pulling it when
// it is not here. NotFound: nobody has it. Invalid: it is no reference.
func (r *Runtime) image(ctx context.Context, ref string) (client.Image, error) {
	named, err := parse(ref)
	if err != nil {
		return nil, err
	}
	img, err := r.here(ctx, named)
	if err == nil {
		return img, nil
	}
	if !errdefs.IsNotFound(err) {
		return nil, classify(err, "find image %s", named)
	}
	if strings.HasPrefix(named.String(), LocalRegistry) {
		return nil, notLoaded(named.String())
	}
	return r.pull(ctx, named.String())
}

// notLoaded says that nobody can bring an image of LocalRegistry.
func notLoaded(name string) error {
	return types.Errorf(types.NotFound, "find image %s: it is not on this node, and images of %s are not pulled; bring it there with: escher image load",
		name, LocalRegistry)
}

// here returns an image that is on this machine. One that is named by its digest
// may be here under any name: to ask a registry for it could only fail.
func (r *Runtime) here(ctx context.Context, named reference.Named) (client.Image, error) {
	record, err := r.client.ImageService().Get(ctx, named.String())
	if canonical, ok := named.(reference.Canonical); ok && errdefs.IsNotFound(err) {
		record, err = r.byDigest(ctx, canonical.Digest())
	}
	if err != nil {
		return nil, err
	}
	return client.NewImage(r.client, record), nil
}

func (r *Runtime) byDigest(ctx context.Context, d digest.Digest) (images.Image, error) {
	found, err := r.client.ImageService().List(ctx, fmt.Sprintf("target.digest==%q", d))
	if err != nil {
		return images.Image{}, err
	}
	if len(found) == 0 {
		return images.Image{}, errdefs.ErrNotFound
	}
	return found[0], nil
}

// pinned returns the name of an image by its digest.
func pinned(name string, d digest.Digest) string {
	named, err := reference.ParseDockerRef(name)
	if err != nil { // It was made by others, in ways of their own.
		return name
	}
	return reference.TrimNamed(named).Name() + "@" + d.String()
}

// pin keeps an image under its digest as well, so that what was bound to it runs
// again here when its tag has moved on.
func (r *Runtime) pin(ctx context.Context, img images.Image) error {
	name := pinned(img.Name, img.Target.Digest)
	if name == img.Name {
		return nil
	}
	_, err := r.client.ImageService().Create(ctx, images.Image{Name: name, Target: img.Target})
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return classify(err, "keep image %s by its digest", img.Name)
	}
	return nil
}

// unpacked makes sure that the image's file system is there; pulled and
// loaded images have it, unless a crash came between.
func (r *Runtime) unpacked(ctx context.Context, img client.Image) error {
	if err := img.Unpack(ctx, snapshotter); err != nil {
		return incomplete(err, img.Name())
	}
	return nil
}

// incomplete classifies what goes wrong with the content of an image that is here.
func incomplete(err error, name string) error {
	switch {
	case isOtherPlatform(err):
		return otherPlatform(err, name)
	case errdefs.IsNotFound(err):
		return types.Errorf(types.Unavailable, "read image %s: part of it is missing on this node: %w; pull or load it again", name, err)
	}
	return classify(err, "read image %s", name)
}

// configOf returns what an image says of itself. Invalid: it is for another machine.
func configOf(ctx context.Context, img client.Image) (ocispec.Image, error) {
	config, err := img.Spec(ctx)
	if err != nil {
		return config, incomplete(err, img.Name())
	}
	return config, checkPlatform(config, img.Name())
}
