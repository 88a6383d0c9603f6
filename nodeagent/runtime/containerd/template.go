package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/google/uuid"
	"github.com/moby/sys/signal"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	"github.com/escher-sched/escher/types"
)

// maxTemplates is the number of cached templates. A machine with more images and users makes them
// again.
const maxTemplates = 256

// readLease is how long the content made to read an image outlives a crash. It takes less than a
// second to make.
const readLease = 10 * time.Minute

// template is the common part of the containers of one image and user. To make it takes twenty
// calls of containerd, so it is made once: an image never changes.
type template struct {
	// spec is the setup of a container, as JSON: every container changes its own copy.
	spec []byte
	// parent is the file system of the image.
	parent string
	// entrypoint is the image's, which is also at the beginning of spec.
	entrypoint []string
	// stopSignal and check are the image's.
	stopSignal syscall.Signal
	check      *types.Check
}

type templateKey struct {
	image digest.Digest
	user  string
}

// templates is a cache; the zero value is ready.
type templates struct {
	mu     sync.Mutex
	made   map[templateKey]*template
	making locks
}

func (t *templates) get(key templateKey) *template {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.made[key]
}

func (t *templates) put(key templateKey, made *template) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made == nil || len(t.made) >= maxTemplates {
		t.made = make(map[templateKey]*template)
	}
	t.made[key] = made
}

// template returns the template of an image and a user; user "" means the image's.
func (r *Runtime) template(ctx context.Context, img client.Image, user string) (*template, error) {
	key := templateKey{img.Target().Digest, user}
	if t := r.templates.get(key); t != nil {
		return t, nil
	}
	// If a hundred tasks start together, one makes it.
	release, err := r.templates.making.acquire(ctx, string(key.image)+" "+user)
	if err != nil {
		return nil, classify(err, "read image %s", img.Name())
	}
	defer release()
	if t := r.templates.get(key); t != nil {
		return t, nil
	}
	if err := r.pin(ctx, img.Metadata()); err != nil {
		return nil, err
	}
	t, err := r.makeTemplate(ctx, img, user)
	if err != nil {
		return nil, err
	}
	r.templates.put(key, t)
	return t, nil
}

func (r *Runtime) makeTemplate(ctx context.Context, img client.Image, user string) (*template, error) {
	ctx, release, err := r.client.WithLease(namespaces.WithNamespace(ctx, r.conf.Namespace), leases.WithRandomID(), leases.WithExpiration(readLease))
	if err != nil {
		return nil, classify(err, "read image %s", img.Name())
	}
	defer func() { _ = release(ctx) }() // It also expires by itself.
	config, err := configOf(ctx, img)
	if err != nil {
		return nil, err
	}
	t := &template{parent: identity.ChainID(config.RootFS.DiffIDs).String(), entrypoint: config.Config.Entrypoint, stopSignal: syscall.SIGTERM}
	if t.check, err = checkOfImage(ctx, img); err != nil {
		return nil, err
	}
	// Ignore an invalid signal of the image, as other tools do.
	if s, err := signal.ParseSignal(config.Config.StopSignal); err == nil {
		t.stopSignal = s
	}
	key := "escher-template-" + uuid.NewString()
	mounts, err := r.view(ctx, img, key, t.parent)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.client.SnapshotService(snapshotter).Remove(ctx, key) }() // otherwise it ends with the lease
	record := &containers.Container{ID: "template"}
	opts := []oci.SpecOpts{oci.WithImageConfig(img)}
	if user != "" {
		opts = append(opts, withUser(user))
	}
	spec, err := oci.GenerateSpec(ctx, r.client, record, amongUsersOf(mounts, opts...))
	if errors.Is(err, oci.ErrNoUsersFound) {
		if user != "" {
			return nil, err // which names the user
		}
		return nil, types.Errorf(types.Invalid, "run image %s as its user %q: %w; name another user, as uid:gid", img.Name(), config.Config.User, err)
	}
	if err != nil {
		return nil, classify(err, "read image %s", img.Name())
	}
	if t.spec, err = json.Marshal(spec); err != nil {
		return nil, types.Errorf(types.Internal, "keep what image %s says: %w", img.Name(), err)
	}
	return t, nil
}

// view returns the image's file system, to look up its users.
func (r *Runtime) view(ctx context.Context, img client.Image, key, parent string) ([]mount.Mount, error) {
	service := r.client.SnapshotService(snapshotter)
	mounts, err := service.View(ctx, key, parent)
	if errdefs.IsNotFound(err) {
		if err := r.unpacked(ctx, img); err != nil {
			return nil, err
		}
		mounts, err = service.View(ctx, key, parent)
	}
	if err != nil {
		return nil, incomplete(err, img.Name())
	}
	return mounts, nil
}
