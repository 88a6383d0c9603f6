package etcdstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// asked is an etcd that shows a test the requests on its watch streams, for the test to answer.
type asked struct {
	pb.UnimplementedWatchServer
	streams chan *askedStream
}

// askedStream is one of these streams; done is closed at its end.
type askedStream struct {
	t        *testing.T
	requests chan *pb.WatchRequest
	answers  chan *pb.WatchResponse
	end      chan error
	done     chan struct{}
}

func (a *asked) Watch(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	s := &askedStream{requests: make(chan *pb.WatchRequest, 64), answers: make(chan *pb.WatchResponse), end: make(chan error), done: make(chan struct{})}
	a.streams <- s
	defer close(s.done)
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			s.requests <- r
		}
	}()
	for {
		select {
		case answer := <-s.answers:
			if err := stream.Send(answer); err != nil {
				return err
			}
		case err := <-s.end:
			return err
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// sharing returns a store with shared watches, and its etcd.
func sharing(t *testing.T) (*etcdstore.Store, *asked) {
	a := &asked{streams: make(chan *askedStream, 8)}
	listener, path := listen(t)
	server := grpc.NewServer()
	pb.RegisterWatchServer(server, a)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return open(t, "unix://"+path, etcdstore.SharedWatches()), a
}

// next returns the next stream.
func (a *asked) next(t *testing.T) *askedStream {
	s := <-a.streams
	s.t = t
	return s
}

// expect waits for a request: to create a watch below a prefix, to cancel one, or for progress,
// which it skips unless it is expected.
func (s *askedStream) expect(want string) {
	s.t.Helper()
	for r := range s.requests {
		got := "progress"
		switch x := r.RequestUnion.(type) {
		case *pb.WatchRequest_CreateRequest:
			got = "create " + string(x.CreateRequest.Key)
		case *pb.WatchRequest_CancelRequest:
			got = fmt.Sprintf("cancel %d", x.CancelRequest.WatchId)
		}
		if got == want {
			return
		}
		if got != "progress" {
			s.t.Fatalf("asked to %s, want %s", got, want)
		}
	}
}

// say answers that a watch exists, or has news.
func (s *askedStream) say(id, revision int64, keys ...string) {
	answer := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: revision}, WatchId: id}
	for _, key := range keys {
		answer.Events = append(answer.Events, eventAt(key, revision))
	}
	s.answers <- answer
}

func (s *askedStream) created(id, revision int64) {
	s.answers <- &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: revision}, WatchId: id, Created: true}
}

// batchOf returns the next batch as text.
func batchOf(t *testing.T, ch <-chan controlplane.Batch) string {
	t.Helper()
	b, ok := <-ch
	if !ok {
		return "closed"
	}
	text := fmt.Sprintf("%d:", b.Revision)
	for _, e := range b.Events {
		text += " " + e.Key
	}
	if b.Err != nil {
		text = types.ClassOf(b.Err).String()
	}
	return text
}

func expectBatch(t *testing.T, ch <-chan controlplane.Batch, want string) {
	t.Helper()
	if got := batchOf(t, ch); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func from1(prefix string) controlplane.WatchOptions {
	return controlplane.WatchOptions{Prefix: prefix, From: 1}
}

// TestWatchesShareAStream checks that each watch gets its own events, that one without a receiver
// blocks none, and that the stream ends with the last of them.
func TestWatchesShareAStream(t *testing.T) {
	s, etcd := sharing(t)
	ctx, cancel := context.WithCancel(t.Context())
	a := s.Watch(ctx, from1("/a"))
	stream := etcd.next(t)
	stream.expect("create /a")
	b := s.Watch(ctx, from1("/b"))
	stream.expect("create /b")
	stream.created(7, 1)
	stream.created(8, 1)
	for i := range int64(100) {
		stream.say(7, 2+i, "/a/1")
		stream.say(8, 2+i, "/b/1", "/b/2")
	}
	for i := range 100 {
		expectBatch(t, b, fmt.Sprintf("%d: /b/1 /b/2", 2+i))
	}
	for i := range 100 {
		expectBatch(t, a, fmt.Sprintf("%d: /a/1", 2+i))
	}
	cancel()
	<-stream.done
	for _, ch := range []<-chan controlplane.Batch{a, b} {
		expectBatch(t, ch, "closed")
	}
	_ = s.Watch(t.Context(), from1("/a"))
	etcd.next(t).expect("create /a")
}

// TestEndOfOneSharedWatch checks that a watch ended by etcd or by its context is canceled there
// while the others continue, even if it ends before it is created.
func TestEndOfOneSharedWatch(t *testing.T) {
	s, etcd := sharing(t)
	stays := s.Watch(t.Context(), from1("/stays"))
	stream := etcd.next(t)
	stream.expect("create /stays")
	stream.created(0, 1)

	ctx, cancel := context.WithCancel(t.Context())
	early := s.Watch(ctx, from1("/early"))
	stream.expect("create /early")
	cancel()
	expectBatch(t, early, "closed")
	stream.created(1, 1)
	stream.expect("cancel 1")
	stream.answers <- &pb.WatchResponse{WatchId: 1, Canceled: true}

	compacted := s.Watch(t.Context(), from1("/compacted"))
	stream.expect("create /compacted")
	stream.created(2, 1)
	stream.answers <- &pb.WatchResponse{WatchId: 2, Canceled: true, CompactRevision: 5}
	expectBatch(t, compacted, types.Compacted.String())
	expectBatch(t, compacted, "closed")
	stream.expect("cancel 2")

	forbidden := s.Watch(t.Context(), from1("/forbidden"))
	stream.expect("create /forbidden")
	stream.answers <- &pb.WatchResponse{WatchId: -1, Created: true, Canceled: true, CancelReason: "no"}
	expectBatch(t, forbidden, types.Unavailable.String())

	ctx, cancel = context.WithCancel(t.Context())
	late := s.Watch(ctx, from1("/late"))
	stream.expect("create /late")
	stream.created(3, 1)
	stream.say(3, 2, "/late/1")
	expectBatch(t, late, "2: /late/1")
	cancel()
	stream.expect("cancel 3")
	expectBatch(t, late, "closed")

	stream.say(0, 9, "/stays/1")
	expectBatch(t, stays, "9: /stays/1")
}

// TestProgressOfSharedWatches checks that progress goes to the watches that existed at its request;
// etcd may not have started a later one.
func TestProgressOfSharedWatches(t *testing.T) {
	s, etcd := sharing(t)
	old := s.Watch(t.Context(), from1("/old"))
	stream := etcd.next(t)
	stream.expect("create /old")
	stream.created(0, 1)
	stream.expect("progress")
	fresh := s.Watch(t.Context(), from1("/new"))
	for r := range stream.requests {
		if r.GetCreateRequest() != nil {
			break
		}
	}
	stream.created(1, 5)
	stream.say(-1, 5)
	expectBatch(t, old, "5:")
	stream.say(1, 4, "/new/1")
	expectBatch(t, fresh, "4: /new/1")
	stream.expect("progress")
	stream.say(-1, 6)
	expectBatch(t, old, "6:")
	expectBatch(t, fresh, "6:")
}

// TestLostStreamEndsAllSharedWatches checks that the next watch has a new stream.
func TestLostStreamEndsAllSharedWatches(t *testing.T) {
	s, etcd := sharing(t)
	var all []<-chan controlplane.Batch
	for i := range 3 {
		all = append(all, s.Watch(t.Context(), from1(fmt.Sprintf("/%d", i))))
	}
	stream := etcd.next(t)
	for range 3 {
		<-stream.requests
	}
	stream.created(0, 1)
	stream.say(0, 2, "/0/1")
	stream.end <- status.Error(codes.Unavailable, "leader is lost")
	var got []string
	for _, ch := range all {
		for range 2 {
			got = append(got, batchOf(t, ch))
		}
	}
	slices.Sort(got)
	if want := []string{"2: /0/1", "closed", "closed", "unavailable", "unavailable", "unavailable"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	_ = s.Watch(t.Context(), from1("/again"))
	etcd.next(t).expect("create /again")
}
