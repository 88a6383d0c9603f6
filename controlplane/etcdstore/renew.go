package etcdstore

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// renewer sends the renewals of a store on one stream, because opening a stream costs etcd several
// times as much as a renewal. clientv3's KeepAlive chooses its own times, and its KeepAliveOnce
// retries without a pause.
type renewer struct {
	open func(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error)
	// sending is held by the sender: etcd answers in the order of sending.
	sending chan struct{}

	// mu guards the fields below, and all streams.
	mu      sync.Mutex
	current *renewals // nil: none is open
}

// renewals is a stream of renewals.
type renewals struct {
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
	// waiting lists the due answers of each lease, in the order of the requests. An abandoned one
	// keeps its position: its answer must not pass for that of a later request, which it does not
	// renew.
	waiting map[int64][]*renewal
	// wanted is the number of answers that callers wait for.
	wanted int
	// ended reports whether no more answers will come.
	ended bool
}

// renewal is a renewal that was sent, or is about to be.
type renewal struct {
	answer chan renewed
	// settled reports whether it was answered or abandoned.
	settled bool
}

// renewed is the answer to a renewal.
type renewed struct {
	ttl time.Duration
	err error
}

func newRenewer(open func(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error)) *renewer {
	return &renewer{open: open, sending: make(chan struct{}, 1)}
}

// renew sends one renewal and returns its answer.
func (r *renewer) renew(ctx context.Context, id int64) (time.Duration, error) {
	s, sent, err := r.send(ctx, id)
	if err != nil {
		return 0, err
	}
	select {
	case a := <-sent.answer:
		return a.ttl, a.err
	case <-ctx.Done():
		r.leave(s, sent)
		return 0, ctx.Err()
	}
}

// send sends a renewal on the open stream, or on a new one.
func (r *renewer) send(ctx context.Context, id int64) (*renewals, *renewal, error) {
	select {
	case r.sending <- struct{}{}:
		defer func() { <-r.sending }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	for {
		s, err := r.opened(ctx)
		if err != nil {
			return nil, nil, err
		}
		x := r.await(s, id)
		if x == nil {
			continue // it ended just now
		}
		stop := context.AfterFunc(ctx, s.cancel)
		// The error is io.EOF; the answer has the reason.
		_ = s.stream.Send(&pb.LeaseKeepAliveRequest{ID: id})
		stop()
		return s, x, nil
	}
}

// opened returns the open stream, or opens one. The caller holds sending.
func (r *renewer) opened(ctx context.Context) (*renewals, error) {
	r.mu.Lock()
	s := r.current
	r.mu.Unlock()
	if s != nil {
		return s, nil
	}
	// The stream outlasts this renewal, but opening it does not outlast ctx.
	long, cancel := context.WithCancel(clientv3.WithRequireLeader(context.WithoutCancel(ctx)))
	stop := context.AfterFunc(ctx, cancel)
	stream, err := r.open(long)
	if !stop() || err != nil {
		cancel()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	s = &renewals{stream: stream, cancel: cancel, waiting: make(map[int64][]*renewal)}
	r.mu.Lock()
	r.current = s
	r.mu.Unlock()
	go r.receive(s)
	return s, nil
}

// await records a due answer; nil if none will come.
func (r *renewer) await(s *renewals, id int64) *renewal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.ended {
		return nil
	}
	x := &renewal{answer: make(chan renewed, 1)}
	s.waiting[id] = append(s.waiting[id], x)
	s.wanted++
	return x
}

// leave abandons an answer. The stream may be stuck: later renewals use another one, and this one
// ends when no caller wants it.
func (r *renewer) leave(s *renewals, x *renewal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == s {
		r.current = nil
	}
	r.settle(s, x)
}

// settle counts a renewal that no caller waits for any more. The caller holds mu.
func (r *renewer) settle(s *renewals, x *renewal) {
	if !x.settled {
		x.settled = true
		s.wanted--
	}
	if s.wanted == 0 && r.current != s {
		s.cancel()
	}
}

// receive delivers the answers of a stream until it ends.
func (r *renewer) receive(s *renewals) {
	defer s.cancel()
	for {
		resp, err := s.stream.Recv()
		if err != nil {
			r.end(s, err)
			return
		}
		r.answered(s, resp)
	}
}

// answered delivers an answer to the earliest request for its lease.
func (r *renewer) answered(s *renewals, resp *pb.LeaseKeepAliveResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	due := s.waiting[resp.ID]
	if len(due) == 0 {
		return
	}
	due[0].answer <- renewed{ttl: time.Duration(resp.TTL) * time.Second}
	r.settle(s, due[0])
	if len(due) == 1 {
		delete(s.waiting, resp.ID)
	} else {
		s.waiting[resp.ID] = due[1:]
	}
}

// end delivers the error of the stream to all waiting callers.
func (r *renewer) end(s *renewals, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.ended = true
	if r.current == s {
		r.current = nil
	}
	for _, due := range s.waiting {
		for _, x := range due {
			x.answer <- renewed{err: err}
		}
	}
}
