package cmdutil

import (
	"context"
	"strings"

	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/controlplane/sockets"
)

// PolicyLog returns a client of the server that runs policies.
func (f *Factory) PolicyLog(ctx context.Context) (*policylog.Client, error) {
	store, err := f.Etcd(ctx)
	if err != nil {
		return nil, err
	}
	socket, err := f.opsSocket()
	if err != nil {
		return nil, err
	}
	return policylog.Find(ctx, store, socket)
}

// opsSocket returns the socket of the escher dev whose etcd the command uses; "" if it is another
// cluster.
func (f *Factory) opsSocket() (string, error) {
	dir, found, err := f.devDir()
	if err != nil || !found {
		return "", err
	}
	return dir.OpsSocket(), nil
}

// devDir returns the directory of the escher dev whose etcd the command uses, and whether there is one.
func (f *Factory) devDir() (dir dev.Dir, found bool, err error) {
	place, err := f.Place()
	if err != nil {
		return "", false, err
	}
	if len(place.Endpoints) == 0 {
		dir, err := f.Dir()
		return dir, err == nil, err
	}
	// The endpoint that dev prints is a socket below its directory.
	path, _ := strings.CutSuffix(strings.TrimPrefix(place.Endpoints[0], "unix://"), "/etcd/run/"+sockets.EtcdName)
	dir = dev.Dir(path)
	return dir, dir.Endpoint() == place.Endpoints[0], nil
}
