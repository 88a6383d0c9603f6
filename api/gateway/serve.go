package gateway

import (
	"context"
	"errors"
	"net"

	"github.com/soheilhy/cmux"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/controlplane/supervise"
)

// Serve serves the calls of gRPC at a listener by s, and all other requests by http, until ctx is done or
// one of them ends. With TLS, a client of gRPC negotiates HTTP/2 alone, and others HTTP/1.1.
func Serve(ctx context.Context, l net.Listener, s *grpc.Server, http func(ctx context.Context, l net.Listener) error) error {
	mux := cmux.New(l)
	mux.SetReadTimeout(handshakeTime)
	calls := mux.Match(cmux.HTTP2())
	others := mux.Match(cmux.Any())
	g, ctx := supervise.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.Go(func() error {
		defer cancel()
		return http(ctx, others)
	})
	g.Go(func() error {
		err := s.Serve(calls)
		if errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, cmux.ErrServerClosed) || errors.Is(err, cmux.ErrListenerClosed) {
			return nil
		}
		return err
	})
	g.Go(func() error {
		err := mux.Serve()
		if errors.Is(err, net.ErrClosed) || errors.Is(err, cmux.ErrServerClosed) {
			return nil
		}
		return err
	})
	g.Go(func() error {
		<-ctx.Done()
		mux.Close()
		_ = l.Close()
		s.Stop() // and wait for its calls
		return nil
	})
	return g.Wait()
}
