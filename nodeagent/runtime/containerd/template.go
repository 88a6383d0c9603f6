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

// maxTemplates is how many templates are kept; a machine that runs more images and
// users than that makes them again.
const maxTemplates = 256

// readLease is how long what is made to read an image outlives a crash: it is not worth
// more, and to make it takes less than a second.
const readLease = 10 * time.Minute

// template is what the containers of one image and user have in common. To make it
// takes twenty calls of containerd; an image never changes, so that is done once.
type template struct {
	// spec is how a container is set up, as JSON: every container changes its own.
	spec []byte
	// parent is the file system of the image.
	parent string
	// stopSignal is the image's.
	stopSignal syscall.Signal
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

// template returns that of an image and a user; empty is the image's.
func (r *Runtime) template(ctx context.Context, img client.Image, user string) (*template, error) {
	key := templateKey{img.Target().Digest, user}
	if t := r.templates.get(key); t != nil {
		return t, nil
	}
	// Of a hundred tasks that come together, one makes it.
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
	defer func() { _ = release(ctx) }() // It ends by itself, too.
	config, err := configOf(ctx, img)
	if err != nil {
		return nil, err
	}
	t := &template{parent: identity.ChainID(config.RootFS.DiffIDs).String(), stopSignal: syscall.SIGTERM}
	// As everywhere, a signal that the image has wrong is none.
	if s, err := signal.ParseSignal(config.Config.StopSignal); err == nil {
		t.stopSignal = s
	}
	key := "escher-template-" + uuid.NewString()
	mounts, err := r.view(ctx, img, key, t.parent)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.client.SnapshotService(snapshotter).Remove(ctx, key) }() // else the end of the lease does
	record := &containers.Container{ID: "template"}
	opts := []oci.SpecOpts{oci.WithImageConfig(img)}
	if user != "" {
		opts = append(opts, withUser(user))
	}
	spec, err := oci.GenerateSpec(ctx, r.client, record, amongUsersOf(mounts, opts...))
	if errors.Is(err, oci.ErrNoUsersFound) {
		if user != "" {
			return nil, err // which names it
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

// view returns the image's file system, for those who look up its users.
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
