package cmdutil

import (
	"context"
	"net/http"
	"time"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/controlplane/server"
)

// takesBack bounds how long interrupted requests may take back what they have begun, such as a launch.
const takesBack = 40 * time.Second

// API returns a client of the HTTP API: that of the server, that of the socket of the task in which the command
// runs or, if the cluster is reached by etcd, of the same handlers in this process.
func (f *Factory) API(ctx context.Context) (*client.Client, error) {
	f.apiMu.Lock() // some commands ask for several objects at once
	defer f.apiMu.Unlock()
	if f.api != nil {
		return f.api, nil
	}
	place, err := f.FreshPlace(ctx)
	if err != nil {
		return nil, err
	}
	if place.Socket != "" {
		f.api, err = client.New(client.Config{Server: "unix://" + place.Socket})
		return f.api, err
	}
	if place.Server != "" {
		f.api, err = client.New(client.Config{Server: place.Server, CACert: place.CACert, Token: place.Token})
		return f.api, err
	}
	store, err := f.Store(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := f.nodeTLS()
	if err != nil {
		return nil, err
	}
	l := newPipes() // its deadlines are exact: a late one would end a later request
	serving := &http.Server{Handler: rest.Handler(rest.Config{Store: store, NodeTLS: nodes, Used: server.Used, Now: time.Now, Version: Version(), Voice: howto.Say}), ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = serving.Serve(l) // it ends when the command does
	}()
	f.api = client.Through(place.String(), l.Dial)
	f.closeAPI = func() {
		f.api.Close()
		// A request that was interrupted still takes back what it has begun.
		ctx, cancel := context.WithTimeout(context.Background(), takesBack)
		defer cancel()
		_ = serving.Shutdown(ctx) // what is left ends with the process
		<-ended
	}
	return f.api, nil
}
