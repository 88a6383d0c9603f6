package cmdutil

import (
	"context"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/types"
)

// ServerAPI returns a client of the HTTP API of a server, for what only servers have: of the one that the
// command names, else of the escher dev whose etcd it uses. Unavailable: there is none.
func (f *Factory) ServerAPI(ctx context.Context) (*client.Client, error) {
	place, err := f.Place()
	if err != nil {
		return nil, err
	}
	if place.Server != "" {
		return f.API(ctx)
	}
	dir, found, err := f.devDir()
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, types.Errorf(types.Unavailable, "ask a server: etcd does not have this: name a server with --server, which runs with --api")
	}
	return client.New(client.Config{Server: dir.APISocket()})
}
