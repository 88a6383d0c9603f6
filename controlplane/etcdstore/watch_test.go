package etcdstore_test

import (
	"fmt"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
)

// told is an etcd whose watches deliver prepared answers.
type told struct {
	pb.UnimplementedWatchServer
	answers []*pb.WatchResponse
}

func (w *told) Watch(stream grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	for _, answer := range w.answers {
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

func (w *told) serve(t *testing.T) string {
	listener, path := listen(t)
	server := grpc.NewServer()
	pb.RegisterWatchServer(server, w)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return "unix://" + path
}

func eventAt(key string, revision int64) *mvccpb.Event {
	return &mvccpb.Event{Kv: &mvccpb.KeyValue{Key: []byte(key), CreateRevision: revision, ModRevision: revision}}
}

// TestWatchPutsRevisionsTogether checks that a batch is one whole revision, however etcd fragments
// it.
func TestWatchPutsRevisionsTogether(t *testing.T) {
	for name, opts := range watching() {
		t.Run(name, func(t *testing.T) { testRevisions(t, opts) })
	}
}

func testRevisions(t *testing.T, opts []etcdstore.Option) {
	header := &pb.ResponseHeader{Revision: 9}
	s := open(t, (&told{answers: []*pb.WatchResponse{
		{Header: header, Created: true},
		{Header: header, Events: []*mvccpb.Event{eventAt("/a", 2), eventAt("/b", 2), eventAt("/a", 3), eventAt("/c", 4)}},
		{Header: header, Fragment: true, Events: []*mvccpb.Event{eventAt("/a", 5), eventAt("/a", 6)}},
		{Header: header, Fragment: true, Events: []*mvccpb.Event{eventAt("/b", 6)}},
		{Header: header, Events: []*mvccpb.Event{eventAt("/c", 6), eventAt("/a", 7)}},
		{Header: header, Fragment: true, Events: []*mvccpb.Event{eventAt("/a", 8)}},
		{Header: &pb.ResponseHeader{Revision: 8}},
		{Header: header, Events: []*mvccpb.Event{{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte("/a"), ModRevision: 9}}}},
		{Header: header},
	}}).serve(t), opts...)
	want := []string{
		"2: /a@2 /b@2", "3: /a@3", "4: /c@4", "5: /a@5", "6: /a@6 /b@6 /c@6", "7: /a@7", "8: /a@8", "8:", "9: -/a@9", "9:",
	}
	var got []string
	for batch := range s.Watch(t.Context(), controlplane.WatchOptions{Prefix: "/", From: 1}) {
		text := fmt.Sprintf("%d:", batch.Revision)
		for _, e := range batch.Events {
			text += fmt.Sprintf(" %s%s@%d", map[bool]string{true: "-"}[e.Delete], e.Key, e.ModRevision)
		}
		if got = append(got, text); len(got) == len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
