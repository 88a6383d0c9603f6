package etcdstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

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
	stream pb.Watch_WatchClient
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
	if w.stream, err = w.store.watch.Watch(streamCtx, w.store.calls...); err != nil {
		return w.fail(ctx, err)
	}
	create := &pb.WatchCreateRequest{StartRevision: opts.From, ProgressNotify: true, Fragment: true}
	create.Key, create.RangeEnd = prefixRange(opts.Prefix)
	// An error of Send is io.EOF; Recv tells the reason.
	_ = w.stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
	for {
		resp, err := w.stream.Recv()
		if err != nil {
			return w.fail(ctx, err)
		}
		if resp.Created && !resp.Canceled {
			asking.Go(func() { w.ask(streamCtx) })
			continue
		}
		if err := w.handle(ctx, resp); err != nil {
			return err
		}
	}
}

// handle delivers one response; its error ends the watch.
func (w *watch) handle(ctx context.Context, resp *pb.WatchResponse) error {
	w.heard.Store(true)
	switch {
	case resp.CompactRevision != 0:
		return types.Errorf(types.Compacted, "watch %s: compacted at revision %d", w.prefix, resp.CompactRevision)
	case resp.Canceled:
		return types.Errorf(types.Unavailable, "watch %s: etcd at %s ended it: %s", w.prefix, w.store.at(), resp.CancelReason)
	case len(resp.Events) == 0 && !resp.Fragment:
		return w.deliver(ctx, controlplane.Batch{Revision: resp.Header.GetRevision()})
	}
	for _, e := range resp.Events {
		if e.Kv.ModRevision != w.pending.Revision {
			if err := w.flush(ctx); err != nil {
				return err
			}
			w.pending.Revision = e.Kv.ModRevision
		}
		w.pending.Events = append(w.pending.Events, event(e))
	}
	if resp.Fragment {
		// The last revision may go on in the next fragment.
		return nil
	}
	return w.flush(ctx)
}

func event(e *mvccpb.Event) controlplane.Event {
	if e.Type == mvccpb.Event_DELETE {
		return controlplane.Event{KV: controlplane.KV{Key: string(e.Kv.Key), ModRevision: e.Kv.ModRevision}, Delete: true}
	}
	return controlplane.Event{KV: keyValue(e.Kv)}
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
		if !w.heard.Swap(false) && w.stream.Send(request) != nil {
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
