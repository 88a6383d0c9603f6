// Package containerd runs containers with containerd and runc. It speaks to the
// daemons of containerd 1.6 and later.
package containerd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/dialer"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// Config says which containerd, and how containers are run.
type Config struct {
	// Address is the path of containerd's socket.
	Address string
	// Namespace is containerd's, not Escher's: it keeps our containers and
	// images apart from those of others. Two daemons of one machine must not
	// be used with the same one: runc's state and cgroups are named by it.
	Namespace string
	// Cluster and Node are whose containers List returns.
	Cluster string
	Node    string
	// Logger is the program that writes the logs.
	Logger Logger
	// LogMaxBytes is how long a log gets before it is put aside; 0 is
	// tasklog.DefaultMaxBytes.
	LogMaxBytes int64
	// CgroupDriver is who makes the cgroups of containers; empty is what suits the
	// machine: see cgroup.Facts.
	CgroupDriver cgroup.Driver
	// CDIDirs are where specifications of devices are; none are the standard
	// ones, /etc/cdi and /var/run/cdi.
	CDIDirs []string
	// Inits are programs of this machine of which the first that is there is the init of
	// containers that ask for one; none are those that packages have.
	Inits []string

	// RegistryDir has a directory with hosts.toml or certificates for each registry
	// that needs them; empty is DefaultRegistryDir.
	RegistryDir string
	// Keychain has the credentials of registries; nil are those that docker login
	// keeps for the user that this process runs as.
	Keychain authn.Keychain
	// PullStall is how long a registry may send nothing; 0 is DefaultPullStall.
	PullStall time.Duration
	// Pulls are shared by runtimes of one daemon and namespace in one process; nil
	// are its own.
	Pulls *Pulls
}

func (c Config) withDefaults() Config {
	if len(c.Inits) == 0 {
		c.Inits = DefaultInits()
	}
	if c.RegistryDir == "" {
		c.RegistryDir = DefaultRegistryDir
	}
	if c.Keychain == nil {
		c.Keychain = authn.DefaultKeychain
	}
	if c.PullStall == 0 {
		c.PullStall = DefaultPullStall
	}
	if c.Pulls == nil {
		c.Pulls = new(Pulls)
	}
	return c
}

// Logger is a program that calls tasklog.Run with its second argument.
type Logger struct {
	// Path is the program; an absolute path.
	Path string
	// Subcommand is its first argument.
	Subcommand string
}

// Runtime implements nodeagent.Runtime.
type Runtime struct {
	conf   Config
	client *client.Client
	locks  locks
	// control is how containers are limited.
	control control
	// counters reads what containers use.
	counters cgroup.Reader

	templates templates
	outputs   outputs
	unended   unended
}

var _ nodeagent.Runtime = (*Runtime)(nil)

// New returns a runtime. It does not wait for the daemon: calls return
// Unavailable until it serves. The caller closes it.
func New(conf Config) (*Runtime, error) {
	if !filepath.IsAbs(conf.Logger.Path) {
		return nil, types.Errorf(types.Invalid, "use %q as the logger of containers: the path is not absolute", conf.Logger.Path)
	}
	for name, value := range map[string]string{"namespace": conf.Namespace, "cluster": conf.Cluster, "node": conf.Node} {
		if value == "" {
			return nil, types.Errorf(types.Invalid, "use containerd at %s: no %s is given", conf.Address, name)
		}
	}
	control, err := newControl(cgroup.Look(cgroup.DefaultRoot, cgroup.DefaultRun), conf.CgroupDriver, conf.Namespace)
	if err != nil {
		return nil, err
	}
	c, err := connect(conf.Address, conf.Namespace)
	if err != nil {
		return nil, err
	}
	if err := dropTempMounts(conf.Address); err != nil {
		return nil, err
	}
	return &Runtime{conf: conf.withDefaults(), client: c, control: control, outputs: outputs{logger: conf.Logger}}, nil
}

// dropTempMounts undoes the mounts that a process left which was killed while it looked a user
// up in an image: those below the directory where the daemon keeps its files.
func dropTempMounts(address string) error {
	dir := filepath.Dir(address)
	left, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		ours := strings.HasPrefix(m.Root, dir+"/") || strings.Contains(m.VFSOptions, dir+"/")
		return !ours || !strings.HasPrefix(m.Mountpoint, filepath.Join(os.TempDir(), "containerd-mount")), false
	})
	if err != nil {
		return types.Errorf(types.Internal, "look for mounts that were left: %w", err)
	}
	for _, m := range left {
		if err := mount.UnmountAll(m.Mountpoint, unix.MNT_DETACH); err != nil {
			return types.Errorf(types.Internal, "undo the mount %s, which was left: %w", m.Mountpoint, err)
		}
		_ = os.Remove(m.Mountpoint) // An empty directory does no harm.
	}
	return nil
}

// Close ends the connection to the daemon; containers run on.
func (r *Runtime) Close() error {
	r.outputs.close()
	err := r.client.Close()
	r.unended.wait()
	return err
}

// Ping returns nil when the daemon serves, Unavailable else.
func (r *Runtime) Ping(ctx context.Context) error {
	if _, err := r.client.Version(ctx); err != nil {
		return classify(err, "reach containerd at %s", r.conf.Address)
	}
	return nil
}

// connect returns a client that is soon connected again after the daemon was
// away: to ask a local socket costs nothing.
func connect(address, namespace string) (*client.Client, error) {
	const retry = 100 * time.Millisecond
	params := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: retry, Multiplier: 1, MaxDelay: retry},
		MinConnectTimeout: 10 * time.Second,
	}
	c, err := client.New(address,
		client.WithDefaultNamespace(namespace),
		client.WithDefaultRuntime(runtimeName),
		client.WithDialOpts([]grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(params),
			grpc.WithContextDialer(dialer.ContextDialer),
		}))
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "connect to containerd at %s: %w", address, err)
	}
	return c, nil
}
