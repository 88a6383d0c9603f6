package etcdstore

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/controlplane"
)

// SharedWatches makes all watches of the store share one stream, like those of etcd's own client.
// It serves processes with very many watches, because a stream costs etcd 50 KB and some
// goroutines. Undelivered batches are kept here without bound. Progress is only reported while etcd
// has sent everything to each watch, and the revision with which each begins exists. Only the bench uses it, but it decodes watches like
// Store.Watch, so it is here.
func SharedWatches() Option {
	return func(s *Store) { s.shared = &sharedWatches{store: s, sending: make(chan struct{}, 1)} }
}

// sharedWatches holds the watches of a store.
type sharedWatches struct {
	store *Store
	// sending is held by the goroutine that opens a stream or sends on it.
	sending chan struct{}

	// mu guards the fields below, the streams and the watches.
	mu      sync.Mutex
	current *sharedStream // nil: none is open
}

// sharedStream is a stream of watches.
type sharedStream struct {
	ctx    context.Context
	stream grpc.ClientStream
	cancel context.CancelFunc
	// creating lists the requested watches: etcd answers in that order.
	creating []*sharedWatch
	byID     map[int64]*sharedWatch
	// wanted is the number of watches that have not ended.
	wanted int
	ended  bool
	// asked is the number of further intervals to wait for an answer about progress; none comes
	// while etcd has unsent events.
	asked int
}

// sharedWatch is one of the watches.
type sharedWatch struct {
	revisions
	ctx  context.Context
	out  chan controlplane.Batch
	stop func() bool // stops waiting for the end of ctx
	on   *sharedStream
	id   int64 // within the stream
	// queue holds batches beyond the capacity of out. While a goroutine empties it, only that
	// goroutine sends.
	queue           []controlplane.Batch
	emptying, ended bool
	// heard reports whether something came since the last check; asking whether the watch existed
	// when progress was requested.
	heard, asking bool
}

const (
	// sharedBuffer is the number of batches that a receiver may lag behind before it needs a
	// goroutine.
	sharedBuffer = 4
	// intervals is the number of intervals to wait for an answer about progress. A later answer
	// could be mistaken for another one.
	intervals = 3
	// noWatch is the id in answers about all watches of a stream.
	noWatch = int64(clientv3.InvalidWatchID)
)

// watch implements Store.Watch.
func (x *sharedWatches) watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	w := &sharedWatch{ctx: ctx, out: make(chan controlplane.Batch, sharedBuffer), revisions: revisions{store: x.store, opts: opts}}
	w.emit = func(_ context.Context, b controlplane.Batch) error { x.put(w, b); return nil }
	x.store.metrics.watching()
	x.mu.Lock()
	w.stop = context.AfterFunc(ctx, func() { x.leave(w) })
	x.mu.Unlock()
	go x.begin(w, opts)
	return w.out
}

// begin requests a watch.
func (x *sharedWatches) begin(w *sharedWatch, opts controlplane.WatchOptions) {
	err := validFrom(opts)
	if err == nil {
		err = x.create(w, opts)
	}
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.end(w, err)
	}
}

// create requests a watch on the open stream, or on a new one.
func (x *sharedWatches) create(w *sharedWatch, opts controlplane.WatchOptions) error {
	select {
	case x.sending <- struct{}{}:
		defer func() { <-x.sending }()
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
	for {
		s, err := x.opened(w.ctx)
		if err != nil {
			return w.fail(w.ctx, err)
		}
		if x.join(s, w) {
			// The error is io.EOF; the answer has the reason.
			_ = s.stream.SendMsg(createWatch(opts, false))
			return nil
		}
	}
}

// join adds a watch to a stream, unless the stream has just ended.
func (x *sharedWatches) join(s *sharedStream, w *sharedWatch) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.ended {
		return false
	}
	// If the watch has ended meanwhile, answered notices when it is created.
	s.creating = append(s.creating, w)
	s.wanted++
	w.on = s
	return true
}

// opened returns the open stream, or opens one. The caller holds sending.
func (x *sharedWatches) opened(ctx context.Context) (*sharedStream, error) {
	x.mu.Lock()
	s := x.current
	x.mu.Unlock()
	if s != nil {
		return s, nil
	}
	// The stream outlasts this watch, but opening it does not outlast ctx.
	long, cancel := context.WithCancel(clientv3.WithRequireLeader(context.WithoutCancel(ctx)))
	stop := context.AfterFunc(ctx, cancel)
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := x.store.client.ActiveConnection().NewStream(long, desc, pb.Watch_Watch_FullMethodName, x.store.raw...)
	if !stop() || err != nil {
		cancel()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	s = &sharedStream{ctx: long, stream: stream, cancel: cancel, byID: make(map[int64]*sharedWatch)}
	x.mu.Lock()
	x.current = s
	x.mu.Unlock()
	go x.receive(s)
	go x.ask(s)
	return s, nil
}

// receive delivers the answers of a stream until it ends.
func (x *sharedWatches) receive(s *sharedStream) {
	defer s.cancel()
	for {
		var answer watchAnswer
		if err := s.stream.RecvMsg(&answer); err != nil {
			x.broken(s, err)
			return
		}
		if gone := x.answered(s, &answer); gone != noWatch {
			// Sending may wait for etcd, which may wait for this goroutine to receive.
			go x.send(s, cancelWatch(gone))
		}
	}
}

// answered delivers an answer. It returns the id of a watch that is no longer wanted, noWatch if
// there is none.
func (x *sharedWatches) answered(s *sharedStream, answer *watchAnswer) (gone int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if answer.id == noWatch && !answer.created {
		s.progress(answer)
		return noWatch
	}
	w := s.byID[answer.id]
	if answer.created && len(s.creating) > 0 {
		w = s.creating[0]
		s.creating = s.creating[1:]
		if !answer.canceled {
			w.id = answer.id
			s.byID[w.id] = w
		}
	}
	if w == nil {
		return noWatch // it is ending
	}
	if !w.ended && (!answer.created || answer.canceled) {
		w.heard = true
		if err := w.handle(w.ctx, answer); err != nil {
			x.end(w, err)
		}
	}
	if !w.ended {
		return noWatch
	}
	delete(s.byID, answer.id)
	x.unwanted(s)
	return answer.id
}

// progress delivers progress to all watches that existed when it was requested.
func (s *sharedStream) progress(answer *watchAnswer) {
	s.asked = 0
	for _, w := range s.byID {
		if w.asking && !w.ended {
			_ = w.handle(w.ctx, answer) // without events it cannot fail
		}
		w.asking = false
	}
}

// unwanted counts an ended watch, and ends a stream without watches.
func (x *sharedWatches) unwanted(s *sharedStream) {
	if s.wanted--; s.wanted > 0 {
		return
	}
	s.ended = true
	if x.current == s {
		x.current = nil
	}
	s.cancel()
}

// leave ends a watch whose context is done.
func (x *sharedWatches) leave(w *sharedWatch) {
	x.mu.Lock()
	w.queue = nil
	x.end(w, nil)
	s := w.on
	there := s != nil && s.byID[w.id] == w
	if there {
		delete(s.byID, w.id)
		x.unwanted(s)
	}
	x.mu.Unlock()
	if there {
		x.send(s, cancelWatch(w.id))
	}
}

// cancelWatch returns the request to end a watch.
func cancelWatch(id int64) *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}}
}

// send sends a request, unless the stream ends.
func (x *sharedWatches) send(s *sharedStream, request *pb.WatchRequest) {
	select {
	case x.sending <- struct{}{}:
		defer func() { <-x.sending }()
		_ = s.stream.SendMsg(request)
	case <-s.ctx.Done():
	}
}

// broken ends all watches of a stream.
func (x *sharedWatches) broken(s *sharedStream, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s.ended = true
	if x.current == s {
		x.current = nil
	}
	for _, w := range s.creating {
		x.end(w, w.fail(w.ctx, err))
	}
	for _, w := range s.byID {
		x.end(w, w.fail(w.ctx, err))
	}
}

// ask requests the progress of all watches whenever one was silent for a while.
func (x *sharedWatches) ask(s *sharedStream) {
	tick := time.NewTicker(x.store.progress)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		if x.silent(s) {
			x.send(s, askProgress())
		}
		x.await(s)
	}
}

// await reports that the store answers, to the watches whose first revision it has not reached.
func (x *sharedWatches) await(s *sharedStream) {
	x.mu.Lock()
	var one *sharedWatch
	for _, w := range s.byID {
		if !w.reached {
			one = w
		}
	}
	x.mu.Unlock()
	if one == nil {
		return
	}
	revision, err := one.current(s.ctx)
	if err != nil {
		return // the end of the stream tells why
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, w := range s.byID {
		if !w.ended {
			_ = w.ahead(w.ctx, revision) // put returns no error
		}
	}
}

// silent reports whether to request progress, and marks the watches that it concerns.
func (x *sharedWatches) silent(s *sharedStream) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.asked--; s.asked > 0 {
		return false
	}
	silent := false
	for _, w := range s.byID {
		silent = silent || !w.heard
		w.heard, w.asking = false, true
	}
	if s.asked = 0; silent {
		s.asked = intervals
	}
	return silent
}

// put delivers a batch to the receiver. The caller holds mu.
func (x *sharedWatches) put(w *sharedWatch, b controlplane.Batch) {
	if !w.emptying {
		select {
		case w.out <- b:
			return
		default:
		}
		w.emptying = true
		go x.empty(w)
	}
	w.queue = append(w.queue, b)
}

// empty delivers the queue, and closes out if the watch has ended.
func (x *sharedWatches) empty(w *sharedWatch) {
	for {
		x.mu.Lock()
		if len(w.queue) == 0 {
			w.emptying = false
			if w.ended {
				close(w.out)
			}
			x.mu.Unlock()
			return
		}
		b := w.queue[0]
		w.queue = w.queue[1:]
		x.mu.Unlock()
		select {
		case w.out <- b:
		case <-w.ctx.Done():
			// leave empties the queue.
		}
	}
}

// end ends a watch, with an error unless that is nil or its context is done. The caller holds mu.
func (x *sharedWatches) end(w *sharedWatch, err error) {
	if w.ended {
		return
	}
	if w.ctx.Err() != nil {
		err = nil
	}
	if x.store.metrics.watched(err); err != nil {
		x.put(w, controlplane.Batch{Err: err})
	}
	w.ended = true
	w.stop()
	if !w.emptying {
		close(w.out)
	}
}
