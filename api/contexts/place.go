package contexts

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/sockets"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// The environment variables, besides those of etcdstore.
const (
	EnvContext   = "ESCHER_CONTEXT"
	EnvDir       = "ESCHER_DIR"
	EnvNamespace = "ESCHER_NAMESPACE"
	EnvServer    = "ESCHER_SERVER"
	EnvToken     = "ESCHER_TOKEN"
)

// DefaultNamespace is the namespace when none is named.
const DefaultNamespace = "default"

// Given is what the user of a program says with flags. It comes before the environment.
type Given struct {
	etcdstore.Address
	Dir, Namespace, Context, Server string
}

// Place is where a cluster is: behind the socket of a task, at an address, or in a directory.
type Place struct {
	etcdstore.Address
	// Server is the address of the HTTP API, if the cluster is reached by it, and Token the token for it.
	Server, Token string
	// Login renews the token; nil for one that nothing renews: see Fresh.
	Login *Login
	// Dir is the directory of the cluster; empty means that of Home.
	Dir string
	// Namespace is the namespace to use.
	Namespace string
	// Context is the context it comes from, empty for none.
	Context string
	// Socket is the socket of the task in which the program runs, empty outside of tasks.
	Socket string
	// Home is the home directory of the user.
	Home string
}

// Find returns the place by flags, the task's socket, the environment and the context in use, in
// this order. Without any of them it is the default directory. Flags that name a cluster work in a
// task, too. NotFound: there is no such context.
func Find(given Given, getenv func(string) string) (Place, error) {
	p := Place{Home: getenv("HOME")}
	var c choice
	if len(given.Endpoints) == 0 && given.Dir == "" && given.Context == "" && given.Server == "" {
		p.Socket = getenv(tasksocket.EnvSocket)
	}
	if p.Socket == "" {
		var err error
		if c, err = chosen(given, getenv); err != nil {
			return Place{}, err
		}
	}
	p.locate(given, c, getenv)
	named, fallback := "", ""
	switch {
	case c.flagged:
		named = c.Namespace
	case p.Context != "": // the namespace of a context is one of its cluster
		fallback = c.Namespace
	}
	p.Namespace = cmp.Or(given.Namespace, named, getenv(EnvNamespace), fallback, DefaultNamespace)
	return p, nil
}

// choice is the context in use.
type choice struct {
	Context
	// name is empty if there is none.
	name string
	// flagged reports whether a flag names it.
	flagged bool
}

// chosen returns the context in use.
func chosen(given Given, getenv func(string) string) (choice, error) {
	file, err := Load(Path(getenv))
	if err != nil {
		return choice{}, err
	}
	c := choice{name: cmp.Or(given.Context, getenv(EnvContext), file.Current), flagged: given.Context != ""}
	if c.name != "" {
		c.Context, err = file.Get(c.name)
	}
	return c, err
}

// locate sets the address or directory.
func (p *Place) locate(given Given, c choice, getenv func(string) string) {
	env := etcdstore.AddressFromEnv(getenv)
	p.Address, p.Dir = given.Or(env), cmp.Or(given.Dir, getenv(EnvDir))
	p.Token = getenv(EnvToken)
	switch {
	case given.Server != "":
		p.Server = given.Server
	case len(given.Endpoints) > 0:
	case given.Dir != "":
		p.Address = etcdstore.Address{}
	case c.flagged:
		p.use(c, given.Or(env))
		p.Endpoints = c.Endpoints
	case getenv(EnvServer) != "":
		p.Server = getenv(EnvServer)
	case len(env.Endpoints) > 0:
	case p.Dir != "":
		p.Address = etcdstore.Address{}
	case c.name != "":
		p.use(c, given.Or(env))
	}
}

// use takes the address of a context. The certificates of one cluster do not fit the endpoints of
// another: those of a context go with its own endpoints.
func (p *Place) use(c choice, before etcdstore.Address) {
	p.Address, p.Dir, p.Context = before.Or(c.Address), c.Dir, c.name
	p.Server, p.Token, p.Login = c.Server, cmp.Or(c.Token, p.Token), c.Login
}

// Directory returns the absolute path of the directory of the cluster.
func (p Place) Directory() (string, error) {
	dir := p.Dir
	if dir == "" {
		if p.Home == "" {
			return "", types.Errorf(types.Invalid, "dir: is not given, and HOME is not set: give --dir")
		}
		dir = filepath.Join(p.Home, ".local", "share", "escher")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", types.Errorf(types.Invalid, "dir: %q: %w: give an absolute path", dir, err)
	}
	return abs, nil
}

// Endpoint returns the address of etcd of the cluster that escher dev runs in a directory.
func Endpoint(dir string) string { return sockets.Etcd(EtcdDir(dir)) }

// EtcdDir returns the directory of etcd below that of the cluster.
func EtcdDir(dir string) string { return filepath.Join(dir, "etcd") }

// Etcd returns the address of etcd, which for a cluster in a directory is a socket there.
func (p Place) Etcd() (etcdstore.Address, error) {
	if p.Server != "" {
		return etcdstore.Address{}, types.Errorf(types.Precondition, "this needs etcd itself, and %s is the HTTP API: give --endpoints, as an administrator", p.Server)
	}
	if len(p.Endpoints) > 0 {
		return p.Address, nil
	}
	dir, err := p.Directory()
	if err != nil {
		return etcdstore.Address{}, err
	}
	return etcdstore.Address{Endpoints: []string{Endpoint(dir)}}, nil
}

// Store returns how to reach the store of the cluster: etcd or, through a server, its gateway, with the
// token. Invalid: the address or its files are wrong.
func (p Place) Store() (etcdstore.Config, error) {
	if p.Server == "" {
		address, err := p.Etcd()
		if err != nil {
			return etcdstore.Config{}, err
		}
		return address.Config()
	}
	address := etcdstore.Address{Endpoints: []string{p.Server}, CACert: p.CACert, ServerName: p.ServerName}
	if u, err := url.Parse(p.Server); err == nil && u.Port() == "" && u.Scheme == "https" {
		address.Endpoints[0] = "https://" + net.JoinHostPort(u.Hostname(), "443")
	}
	cfg, err := address.Config()
	cfg.Token = p.Token
	return cfg, err
}

// Dial returns the store of the cluster, after it has reached it. Unavailable: it cannot, within
// seconds. It must not be called in a task.
func (p Place) Dial(ctx context.Context, opts ...etcdstore.Option) (*etcdstore.Store, error) {
	cfg, err := p.Store()
	if err != nil {
		return nil, err
	}
	cfg.Options = append(cfg.Options, opts...)
	store, err := etcdstore.Dial(ctx, cfg)
	if err != nil {
		return nil, types.Errorf(types.ClassOf(err), "%w: %s", err, cmp.Or(etcdstore.Remedy(err), types.Textf("%s", p.remedy())))
	}
	return store, nil
}

// remedy says what to do about a cluster that is not reached.
func (p Place) remedy() string {
	switch {
	case p.Server != "":
		return "correct --server or " + EnvServer + ", start an escher server with --api there, or give another " + EnvToken
	case p.Context != "" && len(p.Endpoints) > 0:
		return "correct it with escher context set " + p.Context + " --endpoints HOST:PORT, or start etcd there"
	case len(p.Endpoints) > 0:
		return "correct --endpoints or " + etcdstore.EnvEndpoints + ", or start etcd there"
	}
	dir, _ := p.Directory() // Dial has returned its error
	if _, err := os.ReadDir(dir); errors.Is(err, fs.ErrPermission) {
		return "only the user that runs escher dev may enter its directory: be that user, such as by sudo -E"
	}
	return "start it with escher dev --dir " + dir + ", or name the directory of another with --dir or " + EnvDir
}

// String returns the address of the server, or those of etcd.
func (p Place) String() string {
	if p.Server != "" {
		return p.Server
	}
	address, err := p.Etcd()
	if err != nil {
		return "the cluster"
	}
	return strings.Join(address.Endpoints, ",")
}
