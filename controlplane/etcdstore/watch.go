package etcdstore

import (
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

// Watch delivers changes: see controlplane.Store. Each watch has a stream of its
// own, so that one that is slow holds up nobody; etcd keeps what it has not taken.
// A stream that breaks ends the watch, with Unavailable.
func (s *Store) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	out := make(chan controlplane.Batch)
	go func() {
		defer close(out)
		w := &watch{store: s, out: out, prefix: opts.Prefix}
		s.metrics.watching()
		err := w.run(ctx, opts)
		if ctx.Err() != nil {
			s.metrics.watched(nil)
		} else {
			s.metrics.watched(err)
			// Who ended the context meanwhile does not ask for the reason.
			_ = w.deliver(ctx, controlplane.Batch{Err: err})
		}
	}()
	return out
}

// watch is one stream of events.
type watch struct {
	store  *Store
	out    chan<- controlplane.Batch
	prefix string
	stream grpc.ClientStream
	// pending collects the events of one revision, which may come in several
	// fragments.
	pending controlplane.Batch
	// heard is set by every response, and reset when progress is asked for.
	heard atomic.Bool
}

// run delivers until the watch ends and returns why.
func (w *watch) run(ctx context.Context, opts controlplane.WatchOptions) error {
	if opts.From < 1 {
		return types.Errorf(types.Invalid, "watch %s from revision %d: begin at 1 or later", opts.Prefix, opts.From)
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
	create := &pb.WatchCreateRequest{StartRevision: opts.From, ProgressNotify: true, Fragment: true}
	create.Key, create.RangeEnd = prefixRange(opts.Prefix)
	// An error of SendMsg is io.EOF; RecvMsg tells the reason.
	_ = w.stream.SendMsg(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
	for {
		var answer watchAnswer
		if err := w.stream.RecvMsg(&answer); err != nil {
			return w.fail(ctx, err)
		}
		if answer.created && !answer.canceled {
			asking.Go(func() { w.ask(streamCtx) })
			continue
		}
		if err := w.handle(ctx, &answer); err != nil {
			return err
		}
	}
}

// handle delivers one answer; its error ends the watch.
func (w *watch) handle(ctx context.Context, answer *watchAnswer) error {
	w.heard.Store(true)
	switch {
	case answer.compacted != 0:
		return types.Errorf(types.Compacted, "watch %s: compacted at revision %d", w.prefix, answer.compacted)
	case answer.canceled:
		return types.Errorf(types.Unavailable, "watch %s: etcd at %s ended it: %s", w.prefix, w.store.at(), answer.reason)
	case len(answer.events) == 0 && !answer.fragment:
		if err := w.flush(ctx); err != nil {
			return err
		}
		return w.deliver(ctx, controlplane.Batch{Revision: answer.revision})
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
		// The last revision may go on in the next fragment.
		return nil
	}
	return w.flush(ctx)
}

// oneRevision returns how many of the first events are of one revision.
func oneRevision(events []controlplane.Event) int {
	n := 1
	for n < len(events) && events[n].ModRevision == events[0].ModRevision {
		n++
	}
	return n
}

// flush delivers the pending revision, if there is one.
func (w *watch) flush(ctx context.Context) error {
	batch := w.pending
	w.pending = controlplane.Batch{}
	if len(batch.Events) == 0 {
		return nil
	}
	return w.deliver(ctx, batch)
}

func (w *watch) deliver(ctx context.Context, batch controlplane.Batch) error {
	select {
	case w.out <- batch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask asks for the progress of the watch at its start and whenever nothing came
// for a while: left to itself, etcd tells every ten minutes.
func (w *watch) ask(ctx context.Context) {
	tick := time.NewTicker(w.store.progress)
	defer tick.Stop()
	request := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}
	for {
		if !w.heard.Swap(false) && w.stream.SendMsg(request) != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watch) fail(ctx context.Context, err error) error {
	return w.store.fail(ctx, "watch "+w.prefix, err)
}
