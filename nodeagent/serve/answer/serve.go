package answer

import (
	"context"
	"net"
	"net/http"
	"time"
)

// endTimeout limits the wait for requests at the end.
const endTimeout = time.Second

// Serve answers requests at l until ctx is done, and returns ctx.Err(). Requests under way then
// have a second to end. Any other error is why the server failed. Serve closes l.
func Serve(ctx context.Context, l net.Listener, server *http.Server) error {
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close() // Nothing can be done about an error.
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-ended
		return ctx.Err()
	}
	_ = server.Close() // Nothing can be done about an error.
	return err
}
