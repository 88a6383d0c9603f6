package etcdstore

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// keptAlive is a stream that a test answers on.
type keptAlive struct {
	grpc.ClientStream
	ctx     context.Context
	sent    []int64
	answers chan *pb.LeaseKeepAliveResponse
}

func (k *keptAlive) Send(r *pb.LeaseKeepAliveRequest) error {
	k.sent = append(k.sent, r.ID)
	return nil
}

func (k *keptAlive) Recv() (*pb.LeaseKeepAliveResponse, error) {
	select {
	case resp, ok := <-k.answers:
		if !ok {
			return nil, io.EOF
		}
		return resp, nil
	case <-k.ctx.Done():
		return nil, k.ctx.Err()
	}
}

// TestOthersKeepTheirStream abandons the first of three renewals on a stream, two of them for one
// lease. Each of the others gets its own answer, and then the stream ends.
func TestOthersKeepTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var streams []*keptAlive
		r := newRenewer(func(ctx context.Context) (pb.Lease_LeaseKeepAliveClient, error) {
			streams = append(streams, &keptAlive{ctx: ctx, answers: make(chan *pb.LeaseKeepAliveResponse)})
			return streams[len(streams)-1], nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		renew := func(ctx context.Context, id int64) chan renewed {
			out := make(chan renewed, 1)
			go func() {
				ttl, err := r.renew(ctx, id)
				out <- renewed{ttl, err}
			}()
			synctest.Wait()
			return out
		}
		first, second, other := renew(ctx, 7), renew(t.Context(), 7), renew(t.Context(), 8)
		cancel()
		if a := <-first; a.err == nil {
			t.Errorf("given up: %v", a)
		}
		if len(streams) != 1 || len(streams[0].sent) != 3 {
			t.Fatalf("%d streams", len(streams))
		}
		for i, id := range []int64{7, 7, 8} {
			if streams[0].ctx.Err() != nil {
				t.Error("the stream ended before its last answer")
			}
			streams[0].answers <- &pb.LeaseKeepAliveResponse{ID: id, TTL: int64(i + 1)}
			synctest.Wait()
		}
		if a := <-second; a.ttl != 2*time.Second || a.err != nil {
			t.Errorf("second: %v", a)
		}
		if a := <-other; a.ttl != 3*time.Second || a.err != nil {
			t.Errorf("other: %v", a)
		}
		if streams[0].ctx.Err() == nil {
			t.Error("the stream is left open")
		}
		third := renew(t.Context(), 7)
		if len(streams) != 2 {
			t.Fatalf("%d streams, want another", len(streams))
		}
		close(streams[1].answers)
		if a := <-third; a.err == nil {
			t.Error("it is renewed on a stream that ended")
		}
	})
}
