package etcdstore_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// leasing answers renewals with a time to live that counts the requests. answer, unless nil, is
// called before each.
type leasing struct {
	pb.UnimplementedLeaseServer
	answer  func(id, n int64) error
	streams atomic.Int64
	n       atomic.Int64
}

func (l *leasing) LeaseKeepAlive(s grpc.BidiStreamingServer[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]) error {
	l.streams.Add(1)
	for {
		req, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		n := l.n.Add(1)
		if l.answer != nil {
			if err := l.answer(req.ID, n); err != nil {
				return err
			}
		}
		if err := s.Send(&pb.LeaseKeepAliveResponse{ID: req.ID, TTL: n}); err != nil {
			return err
		}
	}
}

// open starts it and returns a store on it.
func (l *leasing) open(t *testing.T) *etcdstore.Store {
	t.Helper()
	listener, path := listen(t)
	server := grpc.NewServer()
	pb.RegisterLeaseServer(server, l)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{"unix://" + path}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		<-done
	})
	return s
}

// TestRenewalsShareAStream checks that all renewals share a stream, whatever their callers.
func TestRenewalsShareAStream(t *testing.T) {
	l := new(leasing)
	s := l.open(t)
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			for last := time.Duration(0); last < 200*time.Second; {
				ttl, err := s.RenewLease(t.Context(), controlplane.LeaseID(id+1))
				if err != nil || ttl <= last {
					t.Errorf("renewed for %s after %s, %v", ttl, last, err)
					return
				}
				last = ttl
			}
		})
	}
	wg.Wait()
	if n := l.streams.Load(); n != 1 {
		t.Errorf("%d streams", n)
	}
}

// TestLateAnswer abandons a renewal, and checks that its answer does not pass for that of the next,
// which would then believe in a longer life.
func TestLateAnswer(t *testing.T) {
	asked, late := make(chan struct{}), make(chan struct{})
	l := &leasing{answer: func(_, n int64) error {
		if n == 1 {
			close(asked)
			<-late
		}
		return nil
	}}
	s := l.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := s.RenewLease(ctx, 7); !types.Is(err, types.Unavailable) {
		t.Errorf("given up: %v", err)
	}
	ttl, err := s.RenewLease(t.Context(), 7)
	if err != nil || ttl != 2*time.Second {
		t.Errorf("renewed for %s, %v: want the second answer", ttl, err)
	}
	close(late)
	if ttl, err := s.RenewLease(t.Context(), 7); err != nil || ttl != 3*time.Second {
		t.Errorf("renewed for %s, %v: want the third answer", ttl, err)
	}
	if n := l.streams.Load(); n != 2 {
		t.Errorf("%d streams, want another for what came after", n)
	}
}

// TestBrokenStream fails the renewals on a stream, and opens another.
func TestBrokenStream(t *testing.T) {
	l := &leasing{answer: func(_, n int64) error {
		if n == 2 {
			return status.Error(codes.Unavailable, "no leader")
		}
		return nil
	}}
	s := l.open(t)
	for i, want := range []bool{true, false, true} {
		if _, err := s.RenewLease(t.Context(), 7); (err == nil) != want || err != nil && !types.Is(err, types.Unavailable) {
			t.Errorf("renewal %d: %v", i+1, err)
		}
	}
	if n := l.streams.Load(); n != 2 {
		t.Errorf("%d streams", n)
	}
}
