package containerd

import (
	"context"
	"strings"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/private"
	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// localRegistry prefixes the names of loaded images. They are never pulled.
const localRegistry = image.LocalRegistry

// snapshotter keeps the file systems of containers.
const snapshotter = "overlayfs"

// parse returns the full reference. Invalid: ref is not a reference.
func parse(ref string) (reference.Named, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "find image %q: %w; a reference is like docker.io/library/busybox:1.36", ref, err)
	}
	return named, nil
}

// user is the task that needs an image. The zero value is the node.
type user struct {
	namespace string
	// login returns the login of the namespace; nil means none.
	login func(context.Context) (secrets.Login, error)
}

func userOf(c nodeagent.Container) user { return user{c.Attempt.Namespace, c.Login} }

// loginOf returns the login for the image.
func (u user) loginOf(ctx context.Context) (secrets.Login, error) {
	if u.login == nil {
		return secrets.Login{}, nil
	}
	return u.login(ctx)
}

// images returns the images of this machine.
func (r *Runtime) images() private.Store {
	return private.Store{Cluster: r.conf.Cluster, Images: r.client.ImageService(), Content: r.client.ContentStore()}
}

// image returns the image of a reference for by, ready to run. It pulls an image that is not on this
// machine, or that by may not use without its registry. NotFound: no registry has it, or grants access to
// it. Invalid: ref is not a reference.
func (r *Runtime) image(ctx context.Context, ref string, by user) (client.Image, error) {
	named, err := parse(ref)
	if err != nil {
		return nil, err
	}
	found, err := r.here(ctx, named)
	if err != nil {
		return nil, classify(err, "find image %s", named)
	}
	for _, record := range found {
		if !private.Is(record) {
			return client.NewImage(r.client, record), nil
		}
	}
	if strings.HasPrefix(named.String(), localRegistry) {
		return nil, notLoaded(named.String())
	}
	login, err := by.loginOf(ctx)
	if err != nil {
		return nil, err
	}
	p := private.Puller{Namespace: by.namespace, Login: login}
	for _, record := range found {
		if r.images().MayUse(record, p) {
			return client.NewImage(r.client, record), nil
		}
	}
	return r.pull(ctx, named.String(), p)
}

// notLoaded returns the error for a missing image of localRegistry, which cannot be pulled.
func notLoaded(name string) error {
	return types.Errorf(types.NotFound, "find image %s: it is not on this node, and images of %s are not pulled; bring it there: %s",
		name, localRegistry, action.LoadImage.Of())
}

// here returns the image of this machine that a reference names; none if there is none. The same image
// under other names follows if it is private, or if the reference has a digest: a pull by that digest
// could only fail.
func (r *Runtime) here(ctx context.Context, named reference.Named) ([]images.Image, error) {
	record, err := r.client.ImageService().Get(ctx, named.String())
	canonical, isCanonical := named.(reference.Canonical)
	switch {
	case errdefs.IsNotFound(err) && isCanonical:
		return r.images().ByDigest(ctx, canonical.Digest())
	case errdefs.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !private.Is(record):
		return []images.Image{record}, nil
	}
	found, err := r.images().ByDigest(ctx, record.Target.Digest)
	return append([]images.Image{record}, found...), err
}

// pinned returns the name of an image with its digest.
func pinned(name string, d digest.Digest) string {
	named, err := reference.ParseDockerRef(name)
	if err != nil { // Another program made it, with its own kind of name.
		return name
	}
	return reference.TrimNamed(named).Name() + "@" + d.String()
}

// pin also stores an image under its digest, so that an attempt bound to it runs again here after
// its tag has moved. There, a private image has the namespaces of all pulls.
func (r *Runtime) pin(ctx context.Context, img images.Image) error {
	name := pinned(img.Name, img.Target.Digest)
	if name == img.Name {
		return nil
	}
	labels := private.Labels(img)
	_, err := r.client.ImageService().Create(ctx, images.Image{Name: name, Target: img.Target, Labels: labels})
	if errdefs.IsAlreadyExists(err) {
		err = r.images().Add(ctx, name, labels)
	}
	if err != nil {
		return classify(err, "keep image %s by its digest", img.Name)
	}
	return nil
}

// unpacked makes sure that the image's file system exists. Pulled and loaded images have one,
// unless a crash interrupted them.
func (r *Runtime) unpacked(ctx context.Context, img client.Image) error {
	if err := img.Unpack(ctx, snapshotter); err != nil {
		return incomplete(err, img.Name())
	}
	return nil
}

// incomplete classifies an error in the content of an image of this machine.
func incomplete(err error, name string) error {
	switch {
	case isOtherPlatform(err):
		return otherPlatform(err, name)
	case errdefs.IsNotFound(err):
		return types.Errorf(types.Unavailable, "read image %s: part of it is missing on this node: %w; pull or load it again", name, err)
	}
	return classify(err, "read image %s", name)
}

// configOf returns the configuration of an image. Invalid: it is for another platform.
func configOf(ctx context.Context, img client.Image) (ocispec.Image, error) {
	config, err := img.Spec(ctx)
	if err != nil {
		return config, incomplete(err, img.Name())
	}
	return config, checkPlatform(config, img.Name())
}

// checkOfImage returns the health check of an image; nil means none. One that does not fit a label
// counts as none: an agent that adopts the container would not know it.
func checkOfImage(ctx context.Context, img client.Image) (*types.Check, error) {
	config, err := img.Config(ctx)
	if err != nil {
		return nil, incomplete(err, img.Name())
	}
	text, err := content.ReadBlob(ctx, img.ContentStore(), config)
	if err != nil {
		return nil, incomplete(err, img.Name())
	}
	return image.Check(text), nil
}
