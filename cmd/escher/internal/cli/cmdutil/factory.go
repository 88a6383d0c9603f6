package cmdutil

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// Factory makes clients for commands, from the global flags and the environment.
type Factory struct {
	Outside

	DirFlag, NamespaceFlag string
	ContextName            string
	flagAddress            etcdstore.Address
	Format                 table.Format
	Color                  colorMode

	Opened controlplane.Store
	// closeStore closes the store; nil means there is none.
	closeStore func() error
	// chosen is the context in use, once looked up.
	chosen *chosenContext
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
	dir := place.dir
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
	named, fallback := "", ""
	if c, err := f.context(); err == nil && c.flagged {
		named = c.Namespace
	} else if err == nil {
		fallback = c.Namespace
	}
	return First(f.NamespaceFlag, named, f.Getenv("ESCHER_NAMESPACE"), fallback, dev.DefaultNamespace)
}

// place is where the cluster is: an address, or a directory.
type place struct {
	etcdstore.Address
	dir string
	// context is the one that it comes from, if any.
	context string
}

// Place returns where the cluster is, by flags, environment and context, in this order. It is empty
// without any of them: the cluster is in the default directory.
func (f *Factory) Place() (place, error) {
	c, err := f.context()
	if err != nil {
		return place{}, err
	}
	env := etcdstore.AddressFromEnv(f.Getenv)
	given := place{Address: f.flagAddress.Or(env), dir: First(f.DirFlag, f.Getenv("ESCHER_DIR"))}
	// The certificates of one cluster do not fit the endpoints of another: those of a context go
	// with its own endpoints.
	ofContext := place{Address: f.flagAddress.Or(env).Or(c.Address), dir: c.Dir, context: c.name}
	switch {
	case len(f.flagAddress.Endpoints) > 0:
	case f.DirFlag != "":
		given.Address = etcdstore.Address{}
	case c.flagged:
		ofContext.Address.Endpoints = c.Endpoints
		return ofContext, nil
	case len(env.Endpoints) > 0:
	case given.dir != "":
		given.Address = etcdstore.Address{}
	case c.name != "":
		return ofContext, nil
	}
	return given, nil
}

// progressInterval is how often a watch without events asks for its progress.
const progressInterval = 500 * time.Millisecond

// Store returns the store of the cluster, after it has reached it. Unavailable: it cannot, within
// seconds.
func (f *Factory) Store(ctx context.Context) (controlplane.Store, error) {
	if f.Opened != nil {
		return f.Opened, nil
	}
	if f.InTask() {
		return nil, types.Errorf(types.Precondition, "reach the cluster: a task can only use set-resource, state, nodes, resources, run, submit, wait and stop: run this command outside")
	}
	place, err := f.Place()
	if err != nil {
		return nil, err
	}
	address, remedy := place.Address, "correct --endpoints, or start etcd there"
	switch {
	case place.context != "" && len(address.Endpoints) > 0:
		remedy = "correct it with escher context set " + place.context + " --endpoints HOST:PORT, or start etcd there"
	case len(address.Endpoints) == 0:
		dir, err := f.Dir()
		if err != nil {
			return nil, err
		}
		address = etcdstore.Address{Endpoints: []string{dir.Endpoint()}}
		remedy = "start it with escher dev --dir " + string(dir) + ", or name the directory of another with --dir or ESCHER_DIR"
	}
	cfg, err := address.Config()
	if err != nil {
		return nil, err
	}
	done := f.Progress("connecting to " + strings.Join(address.Endpoints, ","))
	defer done()
	// A command that reads history waits for the progress of its watch.
	cfg.Options = append(cfg.Options, etcdstore.WithProgressInterval(progressInterval))
	store, err := etcdstore.Dial(ctx, cfg)
	if err != nil {
		return nil, types.Errorf(types.ClassOf(err), "%w: %s", err, cmp.Or(etcdstore.Remedy(err), types.Textf("%s", remedy)))
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

func (f *Factory) InTask() bool { return f.Getenv(tasksocket.EnvSocket) != "" }

// Close closes the clients.
func (f *Factory) Close() {
	if f.closeStore != nil {
		_ = f.closeStore() // nothing is left to send
	}
}

// Print prints rows in the format of the flags.
func Print[T table.Row](f *Factory, rows []T) error { return table.Print(f.Output(), rows) }
