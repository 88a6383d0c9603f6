package cmdutil

import (
	"context"
	"sync"
	"time"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/api/remote"
	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// Factory makes clients for commands, from the global flags and the environment.
type Factory struct {
	Outside

	// Given is what the global flags say.
	Given  contexts.Given
	Format table.Format
	Color  colorMode
	// ShowLabels shows the labels in a table that is not wide.
	ShowLabels bool

	Opened controlplane.Store
	// closeStore closes the store; nil means there is none.
	closeStore func() error
	// api is the client of the HTTP API, once made, and closeAPI ends what serves it in this process. apiMu
	// is held while it is made.
	apiMu    sync.Mutex
	api      *client.Client
	closeAPI func()
	// place is where the cluster is, once looked up. placeMu guards it: some commands ask for several objects
	// at once.
	placeMu sync.Mutex
	place   *contexts.Place
}

// First returns the first text that is not empty.
func First(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// Dir returns the directory of the cluster.
func (f *Factory) Dir() (dev.Dir, error) {
	place, err := f.Place()
	if err != nil {
		return "", err
	}
	dir, err := place.Directory()
	return dev.Dir(dir), err
}

// Namespace returns the namespace.
func (f *Factory) Namespace() string {
	place, err := f.Place()
	if err != nil {
		return First(f.Given.Namespace, f.Getenv(contexts.EnvNamespace), contexts.DefaultNamespace)
	}
	return place.Namespace
}

// Place returns where the cluster is.
func (f *Factory) Place() (contexts.Place, error) {
	f.placeMu.Lock()
	defer f.placeMu.Unlock()
	if f.place == nil {
		place, err := contexts.Find(f.Given, f.Getenv)
		if err != nil {
			return contexts.Place{}, err
		}
		f.place = &place
	}
	return *f.place, nil
}

// FreshPlace is Place with a token that is valid now. Denied: the login of the user has ended.
func (f *Factory) FreshPlace(ctx context.Context) (contexts.Place, error) {
	place, err := f.Place()
	if err == nil {
		place, err = place.Fresh(ctx, f.Getenv, time.Now)
	}
	if err == nil {
		f.placeMu.Lock()
		defer f.placeMu.Unlock()
		f.place = &place
	}
	return place, err
}

// ClusterName returns the name of the cluster for people.
func (f *Factory) ClusterName() string {
	place, err := f.Place()
	if err != nil {
		return "the cluster"
	}
	return place.String()
}

// progressInterval is how often a watch without events asks for its progress.
const progressInterval = 500 * time.Millisecond

// Store returns the store of the cluster, after it has reached it. By the HTTP API of a server, it is what
// the namespace sees of it, and can only be read. Unavailable: it cannot, within seconds.
func (f *Factory) Store(ctx context.Context) (controlplane.Store, error) {
	if f.Opened != nil {
		return f.Opened, nil
	}
	if f.InTask() {
		return nil, types.Errorf(types.Precondition, "reach the cluster: a task can only use set-resource, state, nodes, resources, ps, jobs, run, submit, wait and stop, without -w: run this command outside")
	}
	place, err := f.Place()
	if err != nil {
		return nil, err
	}
	if place.Server != "" {
		c, err := f.API(ctx)
		if err != nil {
			return nil, err
		}
		f.Opened, f.closeStore = remote.NewStore(c, place.Namespace), func() error { return nil }
		return f.Opened, nil
	}
	done := f.Progress("connecting to " + place.String())
	defer done()
	// A command that reads history waits for the progress of its watch.
	if _, err := place.Etcd(); err != nil {
		return nil, err // commands speak the HTTP API to a server
	}
	store, err := place.Dial(ctx, etcdstore.WithProgressInterval(progressInterval))
	if err != nil {
		return nil, err
	}
	f.Opened, f.closeStore = store, store.Close
	return store, nil
}

// Client returns the client of the namespace.
func (f *Factory) Client(ctx context.Context) (*controlplane.Client, error) {
	// Check the namespace before any wait.
	if err := types.ValidateName("namespace", f.Namespace()); err != nil {
		return nil, err
	}
	store, err := f.Store(ctx)
	if err != nil {
		return nil, err
	}
	return controlplane.New(store, f.Namespace(), controlplane.WithNotice(func(reason string) {
		f.ProgressLine("submission is slowed: %s: it goes on when there are fewer", reason)
	}))
}

// InTask reports whether the command runs in a task, and asks its socket.
func (f *Factory) InTask() bool {
	place, err := f.Place()
	return err == nil && place.Socket != ""
}

// Close closes the clients.
func (f *Factory) Close() {
	if f.closeAPI != nil {
		f.closeAPI()
	}
	if f.closeStore != nil {
		_ = f.closeStore() // nothing is left to send
	}
}

// Print prints rows in the format of the flags.
func Print[T table.Row](f *Factory, rows []T) error { return table.Print(f.Output(), rows) }
