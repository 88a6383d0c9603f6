package peers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// Attempt is what one attempt of a task knows of its job.
type Attempt struct {
	r    *Reader
	self Self
	// path is the file of addresses.
	path string

	mu    sync.Mutex
	task  *types.Task
	known []Peer
	// looked reports whether the revision of the bind was read.
	looked bool
}

// Attempt returns an attempt that knows nothing yet. path is its file of addresses, in a directory
// for it alone.
func (r *Reader) Attempt(self Self, path string) *Attempt {
	return &Attempt{r: r, self: self, path: path}
}

// Env reads what the attempt must know, and returns what its environment says of it. A restart in
// place knows the same of tasks that were all there at the first start. Unavailable: something is
// not known yet.
func (a *Attempt) Env(ctx context.Context, which types.Peers) ([]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.task == nil {
		t, err := a.r.Task(ctx, a.self.Namespace, a.self.Task)
		if err != nil || t == nil {
			return nil, err
		}
		a.task = t
	}
	if which != types.NoPeers && a.task.Job != "" && (a.known == nil || which.Followed()) {
		all, err := a.peers(ctx, which)
		if err != nil {
			return nil, err
		}
		a.known = all
	}
	if !which.Listed() {
		return Env(a.self.Task, a.task, nil), nil
	}
	return Env(a.self.Task, a.task, a.known), nil
}

// peers returns the tasks of the job. The caller holds a.mu.
func (a *Attempt) peers(ctx context.Context, which types.Peers) ([]Peer, error) {
	if which != types.WholePeers {
		return a.r.known(ctx, a.self, a.task.Job)
	}
	return a.r.whole(ctx, a.self, a.task.Job, &a.looked)
}

// WriteFirst writes the file of addresses before the process starts. That of an adopted process is
// there. A task of a large job has none. Unavailable: it cannot be written now.
func (a *Attempt) WriteFirst(which types.Peers) error {
	a.mu.Lock()
	all, large := a.known, a.task != nil && a.task.Count > types.MaxPeers
	a.mu.Unlock()
	if len(all) == 0 || large {
		return nil
	}
	if which.Followed() {
		all = slices.DeleteFunc(slices.Clone(all), func(p Peer) bool {
			return p.Host == "" || p.Phase != types.Running && p.Task != a.self.Task
		})
	}
	return a.write(all)
}

// Follow keeps the file of addresses up to date until ctx is done.
func (a *Attempt) Follow(ctx context.Context, log *zap.Logger) {
	err := a.Watch(ctx, log, func(all []Peer) error {
		if err := a.write(all); err != nil {
			log.Error("the file of peers is not up to date", zap.Error(err)) // The next change writes it again.
		}
		return nil
	})
	if ctx.Err() == nil {
		log.Warn("the file of peers is not kept up to date", zap.Error(err))
	}
}

// Watch is Reader.Follow for the attempt.
func (a *Attempt) Watch(ctx context.Context, log *zap.Logger, tell func([]Peer) error) error {
	return a.r.Follow(ctx, a.self, log, tell)
}

// write replaces the file of addresses in one step.
func (a *Attempt) write(all []Peer) error {
	err := os.MkdirAll(filepath.Dir(a.path), 0o755)
	if err == nil {
		err = replace(a.path, Lines(all))
	}
	if err != nil {
		return types.Errorf(types.Unavailable, "write the addresses of peers: %w", err)
	}
	return nil
}

// replace replaces the content of a file that every user may read. It follows no link that a task of
// an older agent, which could write there, may have left.
func replace(path, text string) error {
	next := path + ".new"
	if err := os.RemoveAll(next); err != nil { // the remains of a crash
		return err
	}
	f, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(next, path)
}
