package containerd

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/semaphore"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// progress is the progress of a pull. It counts the bytes from the registry to containerd, so that
// nothing has to be polled.
type progress struct {
	// stalled is called when nothing has arrived for stall while a request was under way.
	stall   time.Duration
	stalled context.CancelCauseFunc
	watch   *time.Timer

	mu    sync.Mutex
	parts map[digest.Digest]*part
	// asked is the number of requests under way.
	asked int
	over  bool
}

// part is a piece of content.
type part struct{ size, done int64 }

func newProgress(stall time.Duration, stalled context.CancelCauseFunc) *progress {
	p := &progress{stall: stall, stalled: stalled, parts: make(map[digest.Digest]*part)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = time.AfterFunc(stall, p.check)
	return p
}

// stop ends the watch. Late content does not restart it.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.watch.Stop()
}

// moved records that content arrived. The caller holds the lock.
func (p *progress) moved() {
	if !p.over {
		p.watch.Reset(p.stall)
	}
}

// check cancels the pull if it waits for the registry.
func (p *progress) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked > 0 {
		p.stalled(types.Errorf(types.Unavailable, "the registry sent nothing for %s", p.stall))
		return
	}
	p.moved()
}

// ask records a request to the registry. The returned function records its end.
func (p *progress) ask() (answered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	p.moved()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked--
	}
}

// at records how much of a piece has arrived.
func (p *progress) at(desc ocispec.Descriptor, done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.part(desc).done = done
	p.moved()
}

func (p *progress) part(desc ocispec.Descriptor) *part {
	if p.parts[desc.Digest] == nil {
		p.parts[desc.Digest] = &part{size: desc.Size}
	}
	return p.parts[desc.Digest]
}

// show adds the progress to the description of a pull.
func (p *progress) show(into *nodeagent.Pulling) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, part := range p.parts {
		into.Done += part.done
		into.Total += part.size
	}
	into.Unpacking = into.Total > 0 && into.Done == into.Total
}

// handler records the pieces of an image, and which have arrived.
func (p *progress) handler(next images.Handler) images.Handler {
	return images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		children, err := next.Handle(ctx, desc)
		if err == nil {
			p.at(desc, desc.Size)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, child := range children {
			p.part(child)
		}
		return children, err
	})
}

// refs returns containerd's names for the partial content of the pieces.
func (p *progress) refs(ctx context.Context) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for d := range p.parts {
		for _, mediaType := range []string{ocispec.MediaTypeImageLayerGzip, ocispec.MediaTypeImageConfig, ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex} {
			all = append(all, remotes.MakeRefKey(ctx, ocispec.Descriptor{Digest: d, MediaType: mediaType}))
		}
	}
	return all
}

// atOnce is the number of pieces of an image fetched concurrently.
const atOnce = 6

// watched is a resolver with counted answers.
type watched struct {
	remotes.Resolver
	p     *progress
	limit *semaphore.Weighted
}

func watch(r remotes.Resolver, p *progress) watched {
	return watched{r, p, semaphore.NewWeighted(atOnce)}
}

func (w watched) Resolve(ctx context.Context, ref string) (string, ocispec.Descriptor, error) {
	defer w.p.ask()()
	name, desc, err := w.Resolver.Resolve(ctx, ref)
	return name, desc, ofRegistry(err)
}

func (w watched) Fetcher(ctx context.Context, ref string) (remotes.Fetcher, error) {
	fetcher, err := w.Resolver.Fetcher(ctx, ref)
	if err != nil {
		return nil, err
	}
	return remotes.FetcherFunc(func(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
		if err := w.limit.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		told := w.p.ask()
		answered := sync.OnceFunc(func() {
			told()
			w.limit.Release(1)
		})
		body, err := fetcher.Fetch(ctx, desc)
		if err != nil {
			answered()
			return nil, ofRegistry(err)
		}
		return &counted{ReadCloser: body, desc: desc, p: w.p, answered: answered}, nil
	}), nil
}

// counted is content in transfer. It can seek if the body can, to resume an interrupted pull.
type counted struct {
	io.ReadCloser
	desc     ocispec.Descriptor
	p        *progress
	answered func()
	offset   int64
}

func (c *counted) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	if n > 0 {
		c.offset += int64(n)
		c.p.at(c.desc, min(c.offset, c.desc.Size))
	}
	if err != nil {
		c.answered()
	}
	return n, ofRegistry(err)
}

func (c *counted) Seek(offset int64, whence int) (int64, error) {
	seeker, ok := c.ReadCloser.(io.Seeker)
	if !ok {
		return 0, types.Errorf(types.Unavailable, "go on at byte %d of %s: the registry cannot", offset, c.desc.Digest)
	}
	at, err := seeker.Seek(offset, whence)
	if err == nil {
		c.offset = at
	}
	return at, err
}

func (c *counted) Close() error {
	c.answered()
	return c.ReadCloser.Close()
}
