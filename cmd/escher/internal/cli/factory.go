package cli

import (
	"context"
	"path/filepath"

	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/nodeagent/tasksocket"
	"github.com/escher-sched/escher/types"
)

// Factory makes what commands need, from the global flags and the environment.
type Factory struct {
	Outside

	dir, endpoint, namespace string
	format                   table.Format

	store *etcdstore.Store
}

// first returns the first text that is not empty.
func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// Dir returns the directory of the cluster.
func (f *Factory) Dir() (dev.Dir, error) {
	dir := first(f.dir, f.Getenv("ESCHER_DIR"))
	if dir == "" {
		home := f.Getenv("HOME")
		if home == "" {
			return "", types.Errorf(types.Invalid, "dir: is not given, and HOME is not set: give --dir")
		}
		dir = filepath.Join(home, ".local", "share", "escher")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", types.Errorf(types.Invalid, "dir: %q: %w: give an absolute path", dir, err)
	}
	return dev.Dir(abs), nil
}

// Namespace returns the namespace.
func (f *Factory) Namespace() string {
	return first(f.namespace, f.Getenv("ESCHER_NAMESPACE"), dev.DefaultNamespace)
}

// Store returns the store of the cluster, which is reached. Unavailable when it is
// not, within seconds.
func (f *Factory) Store(ctx context.Context) (controlplane.Store, error) {
	if f.store != nil {
		return f.store, nil
	}
	if f.inTask() {
		return nil, types.Errorf(types.Precondition, "reach the cluster: a task can only use set-resource, state, nodes, resources, run, wait and stop: run this command outside")
	}
	endpoint := first(f.endpoint, f.Getenv("ESCHER_ENDPOINT"))
	remedy := "correct the endpoint, or start etcd there"
	if endpoint == "" {
		dir, err := f.Dir()
		if err != nil {
			return nil, err
		}
		endpoint = dir.Endpoint()
		remedy = "start it with escher dev --dir " + string(dir) + ", or name the directory of another with --dir or ESCHER_DIR"
	}
	store, err := etcdstore.Dial(ctx, etcdstore.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return nil, types.Errorf(types.ClassOf(err), "%w: %s", err, remedy)
	}
	f.store = store
	return store, nil
}

// Client returns the client of the namespace.
func (f *Factory) Client(ctx context.Context) (*controlplane.Client, error) {
	// A wrong namespace is said before anything is waited for.
	if err := types.ValidateName("namespace", f.Namespace()); err != nil {
		return nil, err
	}
	store, err := f.Store(ctx)
	if err != nil {
		return nil, err
	}
	return controlplane.New(store, f.Namespace())
}

func (f *Factory) inTask() bool { return f.Getenv(tasksocket.EnvSocket) != "" }

// close gives back what was made.
func (f *Factory) close() {
	if f.store != nil {
		_ = f.store.Close() // nothing is left to be sent
	}
}

// print prints rows in the format of the command line.
func print[T table.Row](f *Factory, rows []T) error { return table.Print(f.Out, f.format, rows) }
