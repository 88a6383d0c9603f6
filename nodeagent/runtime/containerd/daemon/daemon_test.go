package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"

	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
	"github.com/escher-sched/escher/types"
)

// config returns the configuration of a daemon in a directory with a short path.
func config(t *testing.T) daemon.Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return daemon.Config{Dir: filepath.Join(dir, "d"), Logger: zaptest.NewLogger(t)}
}

func ensure(t *testing.T, conf daemon.Config) *daemon.Daemon {
	t.Helper()
	d, err := daemon.Ensure(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run runs d until stop is called.
func run(t *testing.T, d *daemon.Daemon) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestRunStopsTheDaemon(t *testing.T) {
	conf := config(t)
	d := ensure(t, conf)
	if !d.Private() || !strings.HasPrefix(d.Address(), conf.Dir) {
		t.Errorf("private %v at %s, want a private one in %s", d.Private(), d.Address(), conf.Dir)
	}
	run(t, d)()
	if err := daemon.Serving(t.Context(), d.Address()); !types.Is(err, types.Unavailable) {
		t.Errorf("after its end: %v, want Unavailable", err)
	}
	if left, err := filepath.Glob(d.Address() + "*"); err != nil || len(left) > 0 {
		t.Errorf("sockets are left: %v, %v", left, err)
	}
}

func TestNamedDaemonMustServe(t *testing.T) {
	conf := config(t)
	conf.Address, conf.Named = filepath.Join(conf.Dir, "nobody.sock"), true
	_, err := daemon.Ensure(t.Context(), conf)
	if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "leave out containerd: ") {
		t.Errorf("got %v, want Precondition and the setting", err)
	}
	conf.Named = false
	d := ensure(t, conf)
	defer run(t, d)()
	if !d.Private() {
		t.Error("it is none of its own where none serves")
	}
}

func TestKeptDaemonIsFoundAgain(t *testing.T) {
	conf := config(t)
	conf.Keep = true
	d := ensure(t, conf)
	run(t, d)()
	first, err := d.PID()
	if err != nil {
		t.Fatal(err)
	}
	conf.Keep = false
	again := ensure(t, conf)
	defer run(t, again)()
	if pid, err := again.PID(); err != nil || pid != first || !again.Private() {
		t.Errorf("process %d, %v, private %v; want the kept one, %d", pid, err, again.Private(), first)
	}
	other := config(t)
	other.Address = again.Address()
	if d := ensure(t, other); d.Private() || d.Address() != other.Address {
		t.Errorf("private %v at %s, want the one that answers at %s", d.Private(), d.Address(), other.Address)
	}
}

func TestKilledDaemonIsStartedAgain(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	started := make(chan struct{}, 10)
	conf := config(t)
	conf.Logger = zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "containerd started" {
			started <- struct{}{}
		}
		return nil
	}))
	d := ensure(t, conf)
	<-started
	defer run(t, d)()
	first, err := d.PID()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-started:
	case <-time.After(time.Minute):
		t.Fatalf("it is not started again; log: %v", logs.All())
	}
	if err := daemon.Serving(t.Context(), d.Address()); err != nil {
		t.Error(err)
	}
}

func TestRefuses(t *testing.T) {
	for name, dir := range map[string]string{
		"relative":    "here",
		"too long":    "/tmp/" + strings.Repeat("x", 100),
		"unprintable": "/tmp/a\nb",
	} {
		conf := daemon.Config{Dir: dir, Logger: zaptest.NewLogger(t)}
		if _, err := daemon.Ensure(t.Context(), conf); !types.Is(err, types.Invalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}

func TestSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := daemon.Ensure(t.Context(), config(t))
	if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "apt-get install containerd runc") {
		t.Errorf("got %v, want Precondition and what to install", err)
	}
}

func TestSaysWhyItDoesNotStart(t *testing.T) {
	conf := config(t)
	// A file is in the place of a directory.
	if err := os.MkdirAll(conf.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf.Dir, "root"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := daemon.Ensure(t.Context(), conf)
	if !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "containerd.log") {
		t.Errorf("got %v, want Unavailable and where the log is", err)
	}
}
