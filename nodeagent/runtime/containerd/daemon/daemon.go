package daemon

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	containerd "github.com/containerd/containerd/v2/client"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

const (
	// startWait limits the start of a daemon. It takes less than a second, and longer on a slow
	// disk.
	startWait = 30 * time.Second
	// stopWait is how long a daemon may take to end before it is killed.
	stopWait = 10 * time.Second
	// probeWait limits the check whether a daemon serves.
	probeWait = 2 * time.Second
)

// Daemon is a containerd that served when Ensure returned.
type Daemon struct {
	conf    Config
	address string
	private bool
}

// Ensure returns a containerd that serves: the one at conf.Address, the private one of conf.Dir if
// it still runs, or a private one that it starts there. The caller owns a private one: Run ends it.
//
// Precondition: containerd or runc is not installed, or none serves at the chosen address.
// Unavailable: it does not serve; its log has the reason. Invalid: see Config.Validate.
func Ensure(ctx context.Context, conf Config) (*Daemon, error) {
	if conf.Address != "" {
		err := Serving(ctx, conf.Address)
		if err == nil {
			conf.Logger.Info("use the containerd of this machine", zap.String("address", conf.Address))
			return &Daemon{conf: conf, address: conf.Address}, nil
		}
		if conf.Named {
			return nil, types.Errorf(types.Precondition, "%w; start it there, or leave out %s: without it, a private one is run where none serves", err, action.AgentContainerd.Of())
		}
	}
	if err := conf.Validate(); err != nil {
		return nil, err
	}
	d := &Daemon{conf: conf, address: conf.socket(), private: true}
	if Serving(ctx, d.address) == nil {
		conf.Logger.Info("use the private containerd that was left running", zap.String("address", d.address))
		return d, nil
	}
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// Address returns the path of the socket.
func (d *Daemon) Address() string { return d.address }

// Private reports whether the daemon is a private one.
func (d *Daemon) Private() bool { return d.private }

// PID returns the id of the process that listens at the address now.
func (d *Daemon) PID() (int, error) { return peer(d.address) }

// Serving returns nil if a containerd answers at address, and Unavailable otherwise.
func Serving(ctx context.Context, address string) error {
	_, err := Version(ctx, address)
	return err
}

// Version returns the version of the containerd that answers at address. Unavailable: none does.
func Version(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	// Without a socket, do not wait.
	if _, err := os.Stat(address); err != nil {
		return "", types.Errorf(types.Unavailable, "reach containerd at %s: %w", address, err)
	}
	c, err := containerd.New(address, containerd.WithTimeout(probeWait))
	if err != nil {
		return "", types.Errorf(types.Unavailable, "reach containerd at %s: %w", address, err)
	}
	defer c.Close()
	v, err := c.Version(ctx)
	if err != nil {
		return "", types.Errorf(types.Unavailable, "reach containerd at %s: %w", address, err)
	}
	return v.Version, nil
}

// start starts a private daemon and returns once it serves.
func (d *Daemon) start(ctx context.Context) error {
	binary, err := installed()
	if err != nil {
		return err
	}
	if err := d.prepare(); err != nil {
		return err
	}
	log, err := os.OpenFile(d.conf.log(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return types.Errorf(types.Precondition, "open the log of containerd: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(binary, "--config", d.conf.toml())
	cmd.Stdout, cmd.Stderr = log, log
	// It gets its own session: a Ctrl-C at the terminal is for the caller, which decides when to
	// stop containerd.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return types.Errorf(types.Unavailable, "start %s: %w", binary, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := d.awaitServing(ctx, ended); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	d.conf.Logger.Info("containerd started", zap.String("address", d.address))
	return nil
}

// prepare makes the directory and its configuration.
func (d *Daemon) prepare() error {
	if err := os.MkdirAll(d.conf.Dir, 0o700); err != nil {
		return types.Errorf(types.Precondition, "make the directory of containerd: %w", err)
	}
	if err := os.WriteFile(d.conf.toml(), []byte(d.conf.text()), 0o600); err != nil {
		return types.Errorf(types.Precondition, "write the configuration of containerd: %w", err)
	}
	return nil
}

// awaitServing waits until the daemon serves or has ended.
func (d *Daemon) awaitServing(ctx context.Context, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	ask := func() (struct{}, error) {
		select {
		case err := <-ended:
			return struct{}{}, backoff.Permanent(types.Errorf(types.Unavailable, "start containerd: it ended (%v); see %s", err, d.conf.log()))
		default:
			return struct{}{}, Serving(ctx, d.address)
		}
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 10*time.Millisecond, 200*time.Millisecond
	if _, err := backoff.Retry(ctx, ask, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0)); err != nil {
		return types.Errorf(types.Unavailable, "await containerd: %w; see %s", err, d.conf.log())
	}
	return nil
}

// installed returns the path of containerd. Precondition: a program needed to run containers is
// missing.
func installed() (string, error) {
	for _, name := range []string{"runc", "containerd-shim-runc-v2", "containerd"} {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", types.Errorf(types.Precondition, "find %s: %w; install it with: apt-get install containerd runc", name, err)
		}
		if name == "containerd" {
			return path, nil
		}
	}
	return "", nil
}
