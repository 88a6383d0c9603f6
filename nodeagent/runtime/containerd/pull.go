package containerd

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/private"
)

const (
	// DefaultPullStall is how long a registry may send nothing.
	DefaultPullStall = time.Minute
	// keepPartial is how long the content of an interrupted pull is kept for the next one.
	keepPartial = 24 * time.Hour
)

// Pulls are the pulls under way, one per image. The zero value is ready.
type Pulls struct {
	mu    sync.Mutex
	under map[pullKey]*pulling
}

// pullKey identifies the pulls that callers share: of one image, with the same login.
type pullKey struct {
	name, namespace, secret string
	revision                int64
}

// pulling is one pull, shared by all callers that want the image. It lasts while one of them waits.
type pulling struct {
	name     string
	by       private.Puller
	since    time.Time
	cancel   context.CancelCauseFunc
	progress *progress

	users int // guarded by Pulls.mu

	done chan struct{} // closed when the result is set
	img  client.Image
	err  error
}

func (p *pulling) key() pullKey {
	return pullKey{p.name, p.by.Namespace, p.by.Login.Secret, p.by.Login.Revision}
}

// Pull implements nodeagent.Images. It pulls for all namespaces, and so with the node's credentials alone.
func (r *Runtime) Pull(ctx context.Context, ref string) (nodeagent.Image, error) {
	named, err := parse(ref)
	if err != nil {
		return nodeagent.Image{}, err
	}
	var img client.Image
	if strings.HasPrefix(named.String(), localRegistry) {
		img, err = r.image(ctx, ref, user{})
	} else {
		img, err = r.pull(ctx, named.String(), private.Puller{})
	}
	if err != nil {
		return nodeagent.Image{}, err
	}
	return r.describe(ctx, img)
}

// Pulling implements nodeagent.Images.
func (r *Runtime) Pulling() []nodeagent.Pulling {
	p := r.conf.Pulls
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []nodeagent.Pulling
	for _, one := range p.under {
		told := nodeagent.Pulling{Name: one.name, Since: one.since}
		one.progress.show(&told)
		all = append(all, told)
	}
	slices.SortFunc(all, func(a, b nodeagent.Pulling) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// pull pulls an image, or waits for a pull under way.
func (r *Runtime) pull(ctx context.Context, ref string, by private.Puller) (client.Image, error) {
	if by.Login.Secret == "" {
		by.Namespace = "" // Namespaces without a login share a pull.
	}
	one := r.joinPull(ctx, ref, by)
	defer r.leavePull(one)
	select {
	case <-one.done:
		return one.img, one.err
	case <-ctx.Done():
		return nil, classify(ctx.Err(), "pull image %s", ref)
	}
}

func (r *Runtime) joinPull(ctx context.Context, ref string, by private.Puller) *pulling {
	p := r.conf.Pulls
	p.mu.Lock()
	defer p.mu.Unlock()
	key := (&pulling{name: ref, by: by}).key()
	if one := p.under[key]; one != nil {
		one.users++
		return one
	}
	// It outlives the caller that started it.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	one := &pulling{
		name: ref, by: by, since: time.Now(), users: 1, cancel: cancel,
		progress: newProgress(r.conf.PullStall, cancel), done: make(chan struct{}),
	}
	if p.under == nil {
		p.under = make(map[pullKey]*pulling)
	}
	p.under[key] = one
	go func() {
		one.img, one.err = r.fetch(quiet(ctx), one)
		one.progress.stop()
		p.mu.Lock()
		p.drop(one)
		p.mu.Unlock()
		cancel(nil)
		close(one.done)
	}()
	return one
}

// drop removes a pull from the list: the next caller starts another. The caller holds the lock.
func (p *Pulls) drop(one *pulling) {
	if p.under[one.key()] == one {
		delete(p.under, one.key())
	}
}

// leavePull cancels the pull when no caller wants it.
func (r *Runtime) leavePull(one *pulling) {
	p := r.conf.Pulls
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.users--; one.users > 0 {
		return
	}
	p.drop(one)
	one.cancel(context.Canceled)
}

// fetch performs a pull.
func (r *Runtime) fetch(ctx context.Context, one *pulling) (client.Image, error) {
	leased, release, err := r.pullLease(ctx, one)
	if err != nil {
		return nil, classify(err, "pull image %s", one.name)
	}
	others := r.images().Others(ctx, one.name, one.by)
	img, err := r.client.Pull(leased, one.name,
		client.WithPullUnpack, client.WithPullSnapshotter(snapshotter), client.WithPullLabels(r.images().Label(one.by)),
		client.WithResolver(r.images().Prove(watch(r.resolver(ctx, one.by.Login), one.progress))),
		client.WithImageHandlerWrapper(one.progress.handler))
	if err == nil {
		_, err = configOf(ctx, img)
	}
	if err == nil {
		err = r.pin(ctx, img.Metadata())
	}
	if err == nil {
		err = r.images().Add(ctx, one.name, others)
	}
	if err == nil {
		release(ctx)
		return img, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if isDamaged(err) || isUnresumable(err) { // A resumed pull would fail forever.
		for _, ref := range one.progress.refs(ctx) {
			_ = r.client.ContentStore().Abort(ctx, ref) // some do not exist
		}
	}
	return nil, pullError(err, one.name, one.by)
}

// pullLease holds the content of a pull until its image exists. All pulls of an image for a node with the
// same login use the same lease, so that the next resumes an interrupted one.
func (r *Runtime) pullLease(ctx context.Context, one *pulling) (context.Context, func(context.Context), error) {
	service := r.client.LeasesService()
	id := strings.Join([]string{r.conf.Cluster, r.conf.Node, one.name, one.by.Namespace}, " ")
	lease := leases.Lease{ID: "escher-pull-" + digest.FromString(id).Encoded()}
	_, err := service.Create(ctx, leases.WithID(lease.ID), leases.WithExpiration(keepPartial))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return nil, nil, err
	}
	release := func(ctx context.Context) {
		_ = service.Delete(ctx, lease) // It also expires by itself.
	}
	return leases.WithLease(ctx, lease.ID), release, nil
}
