package etcdstore

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Watch delivers changes: see controlplane.Store. Each watch has its own stream, so that a slow one
// blocks no other; etcd buffers its undelivered events. A broken stream ends the watch with
// Unavailable.
//
// With SharedWatches all watches share one stream.
func (s *Store) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	if s.shared != nil {
		return s.shared.watch(ctx, opts)
	}
	out := make(chan controlplane.Batch)
	go func() {
		defer close(out)
		w := &watch{out: out, revisions: revisions{store: s, opts: opts}}
		w.emit = w.deliver
		s.metrics.watching()
		err := w.run(ctx, opts)
		if ctx.Err() != nil {
			s.metrics.watched(nil)
		} else {
			s.metrics.watched(err)
			// If the context ended meanwhile, the receiver needs no reason.
			_ = w.deliver(ctx, controlplane.Batch{Err: err})
		}
	}()
	return out
}

// watch is one stream of events.
type watch struct {
	revisions
	out    chan<- controlplane.Batch
	stream grpc.ClientStream
	// heard is set by every response, and reset when progress is requested.
	heard atomic.Bool
	// mu is held by the goroutine that delivers a batch.
	mu sync.Mutex
}

// revisions turns etcd's answers for a watch into batches, each of one revision.
type revisions struct {
	store *Store
	opts  controlplane.WatchOptions
	// reached reports whether etcd has said anything: its history has reached the first revision of
	// the watch.
	reached bool
	// emit receives each batch; its error ends the watch.
	emit func(context.Context, controlplane.Batch) error
	// pending collects the events of one revision, which may come in several fragments.
	pending controlplane.Batch
}

// run delivers until the watch ends, and returns the reason.
func (w *watch) run(ctx context.Context, opts controlplane.WatchOptions) error {
	if err := validFrom(opts); err != nil {
		return err
	}
	streamCtx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()

	var err error
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	if w.stream, err = w.store.client.ActiveConnection().NewStream(streamCtx, desc, pb.Watch_Watch_FullMethodName, w.store.raw...); err != nil {
		return w.fail(ctx, err)
	}
	// An error of SendMsg is io.EOF; RecvMsg returns the reason.
	_ = w.stream.SendMsg(createWatch(opts, true))
	for {
		var answer watchAnswer
		if err := w.stream.RecvMsg(&answer); err != nil {
			return w.fail(ctx, err)
		}
		if answer.created && !answer.canceled {
			asking.Go(func() { w.ask(streamCtx) })
			continue
		}
		w.heard.Store(true)
		if err := w.locked(func() error { return w.handle(ctx, &answer) }); err != nil {
			return err
		}
	}
}

// locked calls f while holding mu.
func (w *watch) locked(f func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f()
}

// createWatch returns the request for a watch; notify makes etcd report its progress now and then.
func createWatch(opts controlplane.WatchOptions, notify bool) *pb.WatchRequest {
	create := &pb.WatchCreateRequest{StartRevision: opts.From, ProgressNotify: notify, Fragment: true}
	create.Key, create.RangeEnd = prefixRange(opts.Prefix)
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}
}

// askProgress returns the request for the progress of all watches of a stream.
func askProgress() *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}
}

func validFrom(opts controlplane.WatchOptions) error {
	if opts.From < 1 {
		return types.Errorf(types.Invalid, "watch %s from revision %d: begin at 1 or later", opts.Prefix, opts.From)
	}
	return nil
}

// handle emits one answer; its error ends the watch.
func (w *revisions) handle(ctx context.Context, answer *watchAnswer) error {
	w.reached = true
	switch {
	case answer.compacted != 0:
		return types.Errorf(types.Compacted, "watch %s: compacted at revision %d", w.opts.Prefix, answer.compacted)
	case answer.canceled:
		return types.Errorf(types.Unavailable, "watch %s: etcd at %s ended it: %s", w.opts.Prefix, w.store.at(), answer.reason)
	case len(answer.events) == 0 && !answer.fragment:
		if err := w.flush(ctx); err != nil {
			return err
		}
		return w.emit(ctx, controlplane.Batch{Revision: answer.revision})
	}
	for events := answer.events; len(events) > 0; {
		n := oneRevision(events)
		if events[0].ModRevision != w.pending.Revision {
			if err := w.flush(ctx); err != nil {
				return err
			}
			w.pending = controlplane.Batch{Revision: events[0].ModRevision, Events: events[:n:n]}
		} else {
			w.pending.Events = append(w.pending.Events, events[:n]...)
		}
		events = events[n:]
	}
	if answer.fragment {
		// The next fragment may continue the last revision.
		return nil
	}
	return w.flush(ctx)
}

// oneRevision returns the number of first events with one revision.
func oneRevision(events []controlplane.Event) int {
	n := 1
	for n < len(events) && events[n].ModRevision == events[0].ModRevision {
		n++
	}
	return n
}

// flush emits the pending revision, if there is one.
func (w *revisions) flush(ctx context.Context) error {
	batch := w.pending
	w.pending = controlplane.Batch{}
	if len(batch.Events) == 0 {
		return nil
	}
	return w.emit(ctx, batch)
}

func (w *watch) deliver(ctx context.Context, batch controlplane.Batch) error {
	select {
	case w.out <- batch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask requests the progress of the watch at its start and after each silent interval: by default
// etcd reports it every ten minutes.
func (w *watch) ask(ctx context.Context) {
	tick := time.NewTicker(w.store.progress)
	defer tick.Stop()
	for {
		if !w.heard.Swap(false) && w.stream.SendMsg(askProgress()) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		w.await(ctx)
	}
}

// await reports that the store answers, while it has not reached the first revision of the watch.
func (w *watch) await(ctx context.Context) {
	w.mu.Lock()
	reached := w.reached
	w.mu.Unlock()
	if reached {
		return
	}
	// A failed read is no news; the end of the stream tells why.
	if revision, err := w.current(ctx); err == nil {
		_ = w.locked(func() error { return w.ahead(ctx, revision) })
	}
}

// ahead emits the progress of a watch whose first revision does not exist yet: etcd answers no
// question about such a watch, however long the store is at rest. The caller has read the revision
// of the store.
func (w *revisions) ahead(ctx context.Context, revision int64) error {
	if w.reached || revision >= w.opts.From {
		return nil
	}
	return w.emit(ctx, controlplane.Batch{Revision: revision})
}

// current reads the revision of the store.
func (w *revisions) current(ctx context.Context) (int64, error) {
	page, err := w.store.List(ctx, controlplane.ListOptions{Key: cmp.Or(w.opts.Prefix, "\x00"), KeysOnly: true})
	return page.Revision, err
}

func (w *revisions) fail(ctx context.Context, err error) error {
	return w.store.fail(ctx, "watch "+w.opts.Prefix, err)
}
