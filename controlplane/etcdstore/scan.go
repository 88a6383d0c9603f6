package etcdstore

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/escher-sched/escher/controlplane"
)

// Scan reads a whole range: see controlplane.Scan. Etcd 3.7 streams it; an older one, and a
// proxy, is asked for pages.
func (s *Store) Scan(ctx context.Context, opts controlplane.ListOptions, take func([]controlplane.KV) error) (revision int64, err error) {
	begin := time.Now()
	x := &scan{take: take}
	err = s.stream(ctx, opts, x)
	if status.Code(err) == codes.Unimplemented && !x.taken {
		return controlplane.ScanPages(ctx, s, opts, take)
	}
	switch {
	case err != nil:
		err = s.fail(ctx, "list "+opts.Prefix+opts.Key, err)
	case x.failed != nil:
		return 0, x.failed
	}
	s.metrics.answered("scan", begin, err)
	if opts.Revision != 0 {
		return opts.Revision, err
	}
	return x.revision, err
}

// scan is a range that is being read.
type scan struct {
	take func([]controlplane.KV) error
	// taken tells that take was called, failed is its error.
	taken    bool
	failed   error
	revision int64
}

// stream reads a range with one call, until its end or until take fails.
func (s *Store) stream(ctx context.Context, opts controlplane.ListOptions, x *scan) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	stream, err := s.client.ActiveConnection().NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.KV_RangeStream_FullMethodName, s.raw...)
	if err != nil {
		return err
	}
	req := &pb.RangeRequest{Revision: opts.Revision, KeysOnly: opts.KeysOnly}
	req.Key, req.RangeEnd = rangeOf(opts)
	// io.EOF means that the status, which RecvMsg returns, came before the end.
	if err := stream.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		var part rangePart
		switch err := stream.RecvMsg(&part); {
		case errors.Is(err, io.EOF) && x.revision == 0:
			return errors.New("the answer ended before the range did")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		x.taken, x.revision = true, part.revision
		if x.failed = x.take(part.kvs); x.failed != nil {
			return nil
		}
	}
}
