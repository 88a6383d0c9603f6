package server

import (
	"context"

	"google.golang.org/grpc"
)

// endWith ends all streams when a context is done. A stopping etcd would otherwise wait seconds for
// its watchers to leave.
func endWith(end context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(end, cancel)()
		return handler(srv, &endingStream{stream, ctx})
	}
}

// endingStream is a stream with another context.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endingStream) Context() context.Context { return s.ctx }
