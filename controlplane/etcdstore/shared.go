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

// SharedWatches has the watches of the store share one stream, as those of etcd's own
// client do. It is for a process that has very many: a stream takes etcd 50 KB and some
// goroutines. What a receiver has not taken is kept here, however much that is, and
// progress is only told while etcd has sent all that there is of each of them. It is here and not
// with its user, the bench, as it decodes watches as Store.Watch does.
func SharedWatches() Option {
	return func(s *Store) { s.shared = &sharedWatches{store: s, sending: make(chan struct{}, 1)} }
}

// sharedWatches are all of a store.
type sharedWatches struct {
	store *Store
	// sending is held by whoever opens a stream, or sends on it.
	sending chan struct{}

	// mu guards what follows, the streams and the watches.
	mu      sync.Mutex
	current *sharedStream // nil: none is open
}

// sharedStream is a stream of them.
type sharedStream struct {
	ctx    context.Context
	stream grpc.ClientStream
	cancel context.CancelFunc
	// creating are the watches that were asked for: etcd answers in that order.
	creating []*sharedWatch
	byID     map[int64]*sharedWatch
	// wanted is how many have not ended.
	wanted int
	ended  bool
	// asked is for how many more looks the answer to a question for progress is waited
	// for; none comes while etcd has not sent all.
	asked int
}

// sharedWatch is one of them.
type sharedWatch struct {
	revisions
	ctx  context.Context
	out  chan controlplane.Batch
	stop func() bool // that the end of ctx is looked for
	on   *sharedStream
	id   int64 // of the stream
	// queue is what out had no room for; while there is a goroutine that empties it,
	// that alone sends.
	queue           []controlplane.Batch
	emptying, ended bool
	// heard tells that something came since the last look; asking, that it was there
	// when progress was asked for.
	heard, asking bool
}

const (
	// sharedRoom is how many batches a receiver may be behind until a goroutine is needed.
	sharedRoom = 4
	// looks is for how many intervals an answer about progress is waited for. One that
	// takes longer than etcd is taken for alive is taken for another one.
	looks = 3
	// noWatch is the id of what concerns all watches of a stream.
	noWatch = int64(clientv3.InvalidWatchID)
)

// watch is Store.Watch.
func (x *sharedWatches) watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	w := &sharedWatch{ctx: ctx, out: make(chan controlplane.Batch, sharedRoom), revisions: revisions{store: x.store, prefix: opts.Prefix}}
	w.emit = func(_ context.Context, b controlplane.Batch) error { x.put(w, b); return nil }
	x.store.metrics.watching()
	x.mu.Lock()
	w.stop = context.AfterFunc(ctx, func() { x.leave(w) })
	x.mu.Unlock()
	go x.begin(w, opts)
	return w.out
}

// begin asks for a watch.
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

// create asks for a watch on the stream that is open, or on a new one.
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
			// An error is io.EOF; the answer tells the reason.
			_ = s.stream.SendMsg(createWatch(opts, false))
			return nil
		}
	}
}

// join lists a watch with a stream, unless that ended just now.
func (x *sharedWatches) join(s *sharedStream, w *sharedWatch) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.ended {
		return false
	}
	// If the watch has ended meanwhile, that is seen when it is there.
	s.creating = append(s.creating, w)
	s.wanted++
	w.on = s
	return true
}

// opened returns the stream that is open, or opens one. The caller holds sending.
func (x *sharedWatches) opened(ctx context.Context) (*sharedStream, error) {
	x.mu.Lock()
	s := x.current
	x.mu.Unlock()
	if s != nil {
		return s, nil
	}
	// It outlasts this watch, but does not keep it longer than ctx.
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

// receive hands out what comes on a stream until it ends.
func (x *sharedWatches) receive(s *sharedStream) {
	defer s.cancel()
	for {
		var answer watchAnswer
		if err := s.stream.RecvMsg(&answer); err != nil {
			x.broken(s, err)
			return
		}
		if gone := x.answered(s, &answer); gone != noWatch {
			// What is sent may wait for etcd, and that for what is to be received.
			go x.send(s, cancelWatch(gone))
		}
	}
}

// answered hands out an answer, and returns the id of a watch that is not wanted any more,
// noWatch if there is none.
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
		return noWatch // its end is under way
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

// progress hands out the progress of all that were there when it was asked for.
func (s *sharedStream) progress(answer *watchAnswer) {
	s.asked = 0
	for _, w := range s.byID {
		if w.asking && !w.ended {
			_ = w.handle(w.ctx, answer) // there are no events
		}
		w.asking = false
	}
}

// unwanted counts a watch less, and ends a stream that has none.
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

// cancelWatch is the request to end a watch.
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

// ask asks for the progress of all watches whenever nothing came of one for a while.
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
	}
}

// silent reports whether progress is to be asked for, and notes of which watches.
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
		s.asked = looks
	}
	return silent
}

// put hands a batch to whoever receives. The caller holds mu.
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

// empty hands out what there is in the queue, and closes out if that is the end.
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
			// Its end empties the queue.
		}
	}
}

// end ends a watch, with an error unless that is nil or its context is done. The caller
// holds mu.
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
