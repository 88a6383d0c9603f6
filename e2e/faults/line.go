package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// line is the connection of one incarnation of a component to the store. It loses calls and
// answers, delays transactions, and kills its component.
type line struct {
	controlplane.Store
	w    *world
	name string
	// kill ends the incarnation.
	kill context.CancelFunc
	// gone is done once the incarnation was killed: its calls get no answers.
	gone <-chan struct{}
	// unguarded selects the compares that are left out of its transactions.
	unguarded func(controlplane.Compare) bool

	mu     sync.Mutex
	random *rand.Rand
	// cut is the time until which nothing gets through, denied the time until which every
	// call is refused.
	cut, denied time.Time
	// severed is closed to end the watches, and then replaced.
	severed chan struct{}
	// renewed is the time at which the last renewal that succeeded was sent.
	renewed time.Time
}

// fate is the fate of one call.
type fate int

const (
	done fate = iota
	// notSent: nothing is done, and the component gets an error.
	notSent
	// lost: nothing is done, and the component does not know.
	lost
	// unanswered: it is done, and the component does not know.
	unanswered
	// late: it is done some time after the component got an unknown outcome.
	late
	// diesBefore and diesAfter: the component dies with the call, undone or done.
	diesBefore
	diesAfter
)

func newLine(w *world, name string, store *memstore.Store, random *rand.Rand, ctx context.Context, kill context.CancelFunc) *line {
	return &line{Store: store, w: w, name: name, kill: kill, gone: ctx.Done(), random: random, severed: make(chan struct{})}
}

// next decides the fate of a call, and its delay.
func (l *line) next() (fate, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	way := time.Duration(l.random.IntN(2000)) * time.Microsecond
	n := l.random.IntN(1000)
	switch {
	case l.w.calm():
		return done, way
	case time.Now().Before(l.cut):
		if n < 500 {
			return lost, 300 * time.Millisecond
		}
		return notSent, 300 * time.Millisecond
	}
	for _, f := range []struct {
		fate
		share int
	}{{notSent, 10}, {lost, 10}, {unanswered, 15}, {late, 10}, {diesBefore, 1}, {diesAfter, 2}} {
		if n -= f.share; n < 0 {
			return f.fate, way
		}
	}
	if n < 20 {
		way += time.Duration(l.random.IntN(1500)) * time.Millisecond
	}
	return done, way
}

// call does one call. Only a commit may be lost without its sender knowing.
func (l *line) call(ctx context.Context, what string, commit bool, do func(ctx context.Context) error) error {
	f, way := l.next()
	if !commit {
		switch f {
		case lost, unanswered, late:
			f = notSent
		}
	}
	select {
	case <-time.After(way):
	case <-ctx.Done():
		return types.Errorf(types.Unavailable, "%s: %w", what, ctx.Err())
	case <-l.gone:
		return l.dead(what)
	}
	if l.isDenied() {
		return types.Errorf(types.Precondition, "%s: permission denied", what)
	}
	if f != done {
		l.w.note("%s: %s: %s", l.name, what, f)
	}
	switch f {
	case notSent:
		return types.Errorf(types.Unavailable, "%s: the store is away", what)
	case lost:
		return l.unknown(what)
	case diesBefore:
		l.kill()
		return l.dead(what)
	case late:
		wait := l.draw(4 * time.Second)
		l.w.goes.Go(func() {
			time.Sleep(wait)
			_ = do(context.WithoutCancel(ctx))
		})
		return l.unknown(what)
	}
	err := do(context.WithoutCancel(ctx))
	switch f {
	case unanswered:
		return l.unknown(what)
	case diesAfter:
		l.kill()
		return l.dead(what)
	}
	return err
}

func (f fate) String() string {
	return []string{"done", "not sent", "lost", "not answered", "late", "dies before", "dies after"}[f]
}

func (l *line) unknown(what string) error {
	return types.Errorf(types.Unknown, "%s: no answer", what)
}

func (l *line) dead(what string) error {
	return types.Errorf(types.Unavailable, "%s: %w", what, context.Canceled)
}

func (l *line) isDenied() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.w.calm() && time.Now().Before(l.denied)
}

func (l *line) draw(most time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.random.Int64N(int64(most)))
}

// List implements controlplane.Store.
func (l *line) List(ctx context.Context, opts controlplane.ListOptions) (page controlplane.Page, err error) {
	err = l.call(ctx, "list", false, func(ctx context.Context) error {
		page, err = l.Store.List(ctx, opts)
		return err
	})
	if err != nil {
		return controlplane.Page{}, err
	}
	return page, nil
}

// Commit implements controlplane.Store.
func (l *line) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if l.unguarded != nil {
		txn.Compares = slices.DeleteFunc(slices.Clone(txn.Compares), l.unguarded)
	}
	var res controlplane.Result
	err := l.call(ctx, "commit", true, func(ctx context.Context) (err error) {
		res, err = l.Store.Commit(ctx, txn)
		return err
	})
	if err != nil {
		return controlplane.Result{}, err
	}
	return res, nil
}

// GrantLease implements controlplane.Store.
func (l *line) GrantLease(ctx context.Context, ttl time.Duration) (id controlplane.LeaseID, err error) {
	sent := time.Now()
	err = l.call(ctx, "grant lease", false, func(ctx context.Context) error {
		id, err = l.Store.GrantLease(ctx, ttl)
		return err
	})
	l.hasRenewed(sent, err)
	return id, err
}

// RenewLease implements controlplane.Store.
func (l *line) RenewLease(ctx context.Context, id controlplane.LeaseID) (ttl time.Duration, err error) {
	sent := time.Now()
	err = l.call(ctx, "renew lease", false, func(ctx context.Context) error {
		ttl, err = l.Store.RenewLease(ctx, id)
		return err
	})
	l.hasRenewed(sent, err)
	return ttl, err
}

func (l *line) hasRenewed(sent time.Time, err error) {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewed = sent
	}
}

// RevokeLease implements controlplane.Store.
func (l *line) RevokeLease(ctx context.Context, id controlplane.LeaseID) error {
	return l.call(ctx, "revoke lease", false, func(ctx context.Context) error { return l.Store.RevokeLease(ctx, id) })
}

// Watch implements controlplane.Store.
func (l *line) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	l.mu.Lock()
	severed := l.severed
	away := !l.w.calm() && time.Now().Before(l.cut)
	l.mu.Unlock()
	out := make(chan controlplane.Batch)
	ctx, stop := context.WithCancel(ctx)
	give := func(b controlplane.Batch) bool {
		select {
		case out <- b:
			return true
		case <-ctx.Done():
		case <-l.gone:
		}
		return false
	}
	go func() {
		defer stop()
		defer close(out)
		if away {
			time.Sleep(300 * time.Millisecond)
			give(controlplane.Batch{Err: types.Errorf(types.Unavailable, "watch: the store is away")})
			return
		}
		in := l.Store.Watch(ctx, opts)
		for {
			select {
			case b, open := <-in:
				if !open || !give(b) {
					return
				}
			case <-severed:
				give(controlplane.Batch{Err: types.Errorf(types.Unavailable, "watch: the connection broke")})
				return
			case <-l.gone:
				return
			}
		}
	}()
	return out
}

// sever ends the watches, and keeps the component away from the store for some time.
func (l *line) sever(away time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = time.Now().Add(away)
	close(l.severed)
	l.severed = make(chan struct{})
}

// deny refuses all calls of the component for some time.
func (l *line) deny(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.denied = time.Now().Add(d)
}
