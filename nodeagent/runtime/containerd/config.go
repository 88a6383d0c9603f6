// Package containerd runs containers with containerd and runc. It works with daemons of containerd
// 1.6 and later.
package containerd

import (
	"context"
	"errors"
	"io/fs"
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
	"github.com/escher-sched/escher/nodeagent/runtime/attach"
	"github.com/escher-sched/escher/types"
)

// Config configures the connection to containerd and how containers run.
type Config struct {
	// Address is the path of containerd's socket.
	Address string
	// Namespace is a containerd namespace, not one of Escher: it separates our containers and
	// images from others. Two daemons of one machine must not use the same one: it names runc's
	// state and cgroups.
	Namespace string
	// Cluster and Node select the containers that List returns.
	Cluster string
	Node    string
	// Logger is the program that writes the logs of containers.
	Logger Logger
	// LogMaxBytes is the size at which a log is rotated; 0 means tasklog.DefaultMaxBytes.
	LogMaxBytes int64
	// CgroupDriver makes the cgroups of containers; "" means the driver that suits the machine: see
	// cgroup.Facts.
	CgroupDriver cgroup.Driver
	// CDIDirs are the directories of CDI device specifications; empty means the standard ones,
	// /etc/cdi and /var/run/cdi.
	CDIDirs []string
	// Inits are paths of init programs on this machine. The first that exists is the init of
	// containers that request one. Empty means DefaultInits.
	Inits []string

	// RegistryDir has a directory with hosts.toml or certificates for each registry that needs
	// them; "" means DefaultRegistryDir.
	RegistryDir string
	// Keychain has the credentials of registries; nil means those that docker login stores for the
	// user of this process.
	Keychain authn.Keychain
	// PullStall is how long a registry may send nothing; 0 means DefaultPullStall.
	PullStall time.Duration
	// KeepWorkdir is how long images of workdirs are kept after their last use; 0 means
	// nodeagent.KeepWorkdir.
	KeepWorkdir time.Duration
	// AttachWait is how long an input waits for a client; 0 means nodeagent.AttachWait.
	AttachWait time.Duration
	// Pulls are shared by the runtimes of one daemon and namespace in a process; nil means not
	// shared.
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
	if c.KeepWorkdir == 0 {
		c.KeepWorkdir = nodeagent.KeepWorkdir
	}
	if c.Pulls == nil {
		c.Pulls = new(Pulls)
	}
	return c
}

// Logger is a program that calls tasklog.Run with its second argument.
type Logger struct {
	// Path is the absolute path of the program.
	Path string
	// Subcommand is its first argument.
	Subcommand string
}

// Runtime implements nodeagent.Runtime.
type Runtime struct {
	conf   Config
	client *client.Client
	locks  locks
	// control sets the limits of containers.
	control control
	// counters reads the resource usage of containers.
	counters cgroup.Reader
	// peaks are the highest samples of memory.
	peaks peaks

	templates templates
	outputs   outputs
	inputs    attach.Inputs
	unended   unended
}

var _ nodeagent.Runtime = (*Runtime)(nil)

// New returns a runtime. It does not wait for the daemon: calls return Unavailable until the daemon
// serves. The caller must call Close.
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
	return &Runtime{conf: conf.withDefaults(), client: c, control: control, outputs: outputs{logger: conf.Logger},
		inputs: attach.Inputs{Wait: conf.AttachWait}}, nil
}

// dropTempMounts removes the mounts left by a process that was killed while it looked up a user in
// an image. They are of directories below the daemon's.
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
		// Another runtime of the machine may remove the same mount, or its process its own.
		if err := mount.UnmountAll(m.Mountpoint, unix.MNT_DETACH); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return types.Errorf(types.Internal, "undo the mount %s, which was left: %w", m.Mountpoint, err)
		}
		_ = os.Remove(m.Mountpoint) // An empty directory is harmless.
	}
	return nil
}

// Close closes the connection to the daemon. Containers run on.
func (r *Runtime) Close() error {
	r.inputs.Close()
	r.outputs.close()
	err := r.client.Close()
	r.unended.wait()
	return err
}

// Ping returns nil if the daemon serves, and Unavailable otherwise.
func (r *Runtime) Ping(ctx context.Context) error {
	if _, err := r.client.Version(ctx); err != nil {
		return classify(err, "reach containerd at %s", r.conf.Address)
	}
	return nil
}

// connect returns a client that reconnects soon after an absence of the daemon: a try on a local
// socket is cheap.
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
