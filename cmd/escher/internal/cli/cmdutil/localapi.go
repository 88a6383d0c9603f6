package cmdutil

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/types"
)

// API returns a client of the HTTP API: that of the server or, if the cluster is reached by etcd, of the
// same handlers in this process.
func (f *Factory) API(ctx context.Context) (*client.Client, error) {
	if f.api != nil {
		return f.api, nil
	}
	if f.InTask() {
		return nil, types.Errorf(types.Precondition, "reach the API: a task can only use set-resource, state, nodes, resources, run, submit, wait and stop: run this command outside")
	}
	place, err := f.Place()
	if err != nil {
		return nil, err
	}
	if place.Server != "" {
		f.api, err = client.New(client.Config{Server: place.Server, CACert: place.CACert, Token: place.Token})
		return f.api, err
	}
	store, err := f.Store(ctx)
	if err != nil {
		return nil, err
	}
	l := newPipeListener()
	server := &http.Server{Handler: rest.Handler(rest.Config{Store: store, Now: time.Now, Version: Version(), Voice: howto.Say}), ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l) // it ends when the command does
	}()
	f.api = client.Through(place.String(), l.dial)
	f.closeAPI = func() {
		f.api.Close()
		_ = server.Close() // no request is left
		<-ended
	}
	return f.api, nil
}

// pipeListener connects a client and a server in one process.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// dial returns the client's end of a new connection.
func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), ours.Close(), theirs.Close())
	}
}

// Accept returns the server's end of a new connection.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener.
func (l *pipeListener) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

// Addr returns a name.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "this process", Net: "pipe"} }
