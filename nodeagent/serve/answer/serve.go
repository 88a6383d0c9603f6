package answer

import (
	"context"
	"net"
	"net/http"
	"time"
)

// endTimeout bounds how long the end waits for what is being served.
const endTimeout = time.Second

// Serve answers requests at l until ctx is done, and returns ctx.Err(). What is being served then
// has a second to end. Another error is why the server failed. Serve closes l.
func Serve(ctx context.Context, l net.Listener, server *http.Server) error {
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close() // There is nothing to be done about it.
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-ended
		return ctx.Err()
	}
	_ = server.Close() // There is nothing to be done about it.
	return err
}
