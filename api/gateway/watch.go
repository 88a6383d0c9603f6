package gateway

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

const (
	// noWatch is the id in answers about no watch of its own, or about all.
	noWatch = -1
	// maxWatches bounds the watches of a stream.
	maxWatches = 1000
	// recheckEvery is how often the rights to open watches are checked.
	recheckEvery = 2 * time.Second
)

// watchServer serves watches.
type watchServer struct {
	pb.UnimplementedWatchServer
	g *Gateway
}

// Watch passes the watches of a stream to etcd, and to the user the events that it may see.
func (s watchServer) Watch(client grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	ctx, cancel := context.WithCancelCause(client.Context())
	defer cancel(nil)
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	etcd, err := s.g.cfg.Etcd.NewStream(onward(ctx), desc, pb.Watch_Watch_FullMethodName, answers(), grpc.ForceCodecV2(s.g.codec))
	if err != nil {
		return err
	}
	w := &watches{user: from(ctx), g: s.g, client: client, etcd: etcd, byID: make(map[int64]*watched)}
	defer w.leave()
	return untilOne(ctx, w.take, w.deliver, w.recheck)
}

// untilOne runs parts of a call until one or ctx ends, and returns why. The others may wait for a client that
// does not read: they end as gRPC ends the stream, after the call.
func untilOne(ctx context.Context, parts ...func(context.Context) error) error {
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ended <- supervise.Contain(func() error { return part(ctx) }) }()
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watches are the watches of one stream.
type watches struct {
	user   user
	g      *Gateway
	client grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]
	etcd   grpc.ClientStream

	// asking is held by the goroutine that sends to etcd, and mu guards the fields below and answers to the client.
	asking sync.Mutex
	mu     sync.Mutex
	// ended reports whether the call has ended: no watch begins then.
	ended bool
	// created lists the watches that wait for an answer to their creation: etcd answers in order.
	created []*watched
	byID    map[int64]*watched
}

// watched is a watch.
type watched struct {
	from, end []byte
	view      view
	// refused is why it is not served; empty means that etcd was asked for it.
	refused string
	// open reports whether the user got a fragment whose rest is to come, and revision is that of its last
	// event.
	open     bool
	revision int64
	// left is called when the watch ends.
	left func()
}

// leave counts all watches as ended. Another goroutine may still hold mu, and wait for a client.
func (w *watches) leave() {
	go func() { // it waits until gRPC has ended the stream
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = true
		for _, x := range w.created {
			x.left()
		}
		for _, x := range w.byID {
			x.left()
		}
	}()
}

// take passes requests to etcd until the client ends the stream.
func (w *watches) take(ctx context.Context) error {
	for {
		req, err := w.client.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.g.cfg.Use.Message(w.user.Subject); err != nil {
			return err
		}
		if create := req.GetCreateRequest(); create != nil {
			passed, err := w.create(ctx, create)
			if err != nil {
				return err
			}
			if !passed {
				continue
			}
		}
		if err := w.ask(req); err != nil {
			<-ctx.Done() // deliver returns the reason
			return context.Cause(ctx)
		}
	}
}

// ask sends a request to etcd.
func (w *watches) ask(req *pb.WatchRequest) error {
	w.asking.Lock()
	defer w.asking.Unlock()
	return w.etcd.SendMsg(req)
}

// create notes a watch that the client asks for, and reports whether to ask etcd for it.
func (w *watches) create(ctx context.Context, create *pb.WatchCreateRequest) (passed bool, err error) {
	x := &watched{from: create.Key, end: create.RangeEnd, left: func() {}}
	x.view, err = looks(ctx, w.user, create.Key, create.RangeEnd)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		x.refused = err.Error()
	case create.WatchId != 0:
		x.refused = "watch: ids of watches are the server's: leave it out"
	case len(w.created) >= maxWatches:
		return false, types.Errorf(types.Unavailable, "watch: too many watches wait for an answer: wait a little")
	case len(w.byID)+len(w.created) >= maxWatches:
		x.refused = "watch: this stream has as many watches as are allowed: open another one"
	case w.ended:
		return false, context.Canceled
	default:
		if leave, err := w.g.cfg.Watching.Enter(w.user.Subject); err != nil {
			x.refused = "watch: " + err.Error()
		} else {
			x.left = sync.OnceFunc(leave)
		}
	}
	w.created = append(w.created, x)
	return x.refused == "", w.refuse()
}

// refuse answers the first watches that wait and are refused. The caller holds mu.
func (w *watches) refuse() error {
	for len(w.created) > 0 && w.created[0].refused != "" {
		answer := &pb.WatchResponse{Header: new(pb.ResponseHeader), WatchId: noWatch, Created: true, Canceled: true, CancelReason: w.created[0].refused}
		w.created = w.created[1:]
		if err := w.client.Send(answer); err != nil {
			return err
		}
	}
	return nil
}

// deliver passes etcd's answers to the client until etcd ends the stream.
func (w *watches) deliver(ctx context.Context) error {
	for {
		answer := new(frame)
		err := w.etcd.RecvMsg(answer)
		if err == nil {
			err = w.pass(ctx, answer)
		}
		if err != nil {
			return err
		}
	}
}

// pass passes what the user may see of an encoded answer: as it is, if that is all.
func (w *watches) pass(ctx context.Context, answer *frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var sum summary
	if sum.parse(answer.data) == nil && !sum.settles {
		if x := w.byID[sum.id]; x != nil && sum.within(x.view) {
			x.open = false // it is no fragment
			return w.client.SendMsg(answer)
		}
	}
	var decoded pb.WatchResponse
	if err := proto.Unmarshal(answer.data, &decoded); err != nil {
		return types.Errorf(types.Internal, "read etcd's answer: %w", err)
	}
	return w.answer(ctx, &decoded)
}

// answer passes what the user may see of an answer. The caller holds mu.
func (w *watches) answer(ctx context.Context, answer *pb.WatchResponse) error {
	if answer.Created && len(w.created) > 0 {
		x := w.created[0]
		w.created = w.created[1:]
		if answer.Canceled {
			x.left()
		} else {
			w.byID[answer.WatchId] = x
		}
		if err := w.client.Send(answer); err != nil {
			return err
		}
		return w.refuse()
	}
	x := w.byID[answer.WatchId]
	switch {
	case answer.WatchId == noWatch: // progress of all
	case x == nil:
		return nil // it has ended
	case answer.Canceled:
		x.left()
		delete(w.byID, answer.WatchId)
	case !x.show(ctx, w.user, answer):
		return nil
	}
	return w.client.Send(answer)
}

// show takes from an answer what the user may not see, and reports whether to send it.
func (x *watched) show(ctx context.Context, u user, answer *pb.WatchResponse) bool {
	if x.view.whole() || len(answer.Events) == 0 {
		return true
	}
	answer.Events = slices.DeleteFunc(answer.Events, func(e *mvccpb.Event) bool {
		return !u.shows(ctx, x.view, e.Kv) || e.PrevKv != nil && !u.shows(ctx, x.view, e.PrevKv)
	})
	n := len(answer.Events)
	if n > 0 {
		x.open, x.revision = answer.Fragment, answer.Events[n-1].Kv.ModRevision
		return true
	}
	// Without events an answer tells progress, which this is not: etcd may not have sent all up to there.
	if answer.Fragment || !x.open {
		return false
	}
	x.open, answer.Header.Revision = false, x.revision
	return true
}

// recheck ends the watches that the user may no longer have.
func (w *watches) recheck(ctx context.Context) error {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		for _, id := range w.lost(ctx) {
			cancel := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}}
			if err := w.ask(cancel); err != nil {
				<-ctx.Done() // deliver returns the reason
				return context.Cause(ctx)
			}
		}
	}
}

// lost tells the client which watches have ended because the user has lost the right, and returns them.
func (w *watches) lost(ctx context.Context) (ids []int64) {
	w.mu.Lock()
	open := make(map[int64]*watched, len(w.byID))
	for id, x := range w.byID {
		open[id] = x
	}
	w.mu.Unlock()
	type answer struct {
		v   view
		err error
	}
	known := make(map[[2]string]answer)
	for id, x := range open {
		at := [2]string{string(x.from), string(x.end)}
		a, ok := known[at]
		if !ok {
			// This may ask etcd, so it does not hold up others.
			a.v, a.err = looks(ctx, w.user, x.from, x.end)
			known[at] = a
		}
		v, err := a.v, a.err
		w.mu.Lock()
		switch {
		case w.byID[id] != x:
		case err == nil:
			x.view = v
		case types.Is(err, types.Denied):
			x.left()
			delete(w.byID, id)
			ids = append(ids, id)
			_ = w.client.Send(&pb.WatchResponse{Header: new(pb.ResponseHeader), WatchId: id, Canceled: true, CancelReason: err.Error()}) // its error ends deliver
		}
		w.mu.Unlock()
	}
	return ids
}
