package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/controlplane/sockets"
	"github.com/escher-sched/escher/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is an Etcd on a goroutine of the test.
type running struct {
	*clientv3.Client
	endpoint string
	cancel   context.CancelFunc
	ended    chan error
}

// run starts an Etcd and returns once it serves.
func run(t *testing.T, cfg Config) *running {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = zaptest.NewLogger(t)
	}
	ready := make(chan string, 1)
	cfg.Ready = func(endpoint string) { ready <- endpoint }
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- e.Run(ctx) }()
	select {
	case r.endpoint = <-ready:
	case err := <-r.ended:
		t.Fatalf("Run ended: %v", err)
	}
	r.Client, err = clientv3.New(clientv3.Config{Endpoints: []string{r.endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.stop(t) })
	return r
}

// stop stops it; it may be called repeatedly.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if r.cancel == nil {
		return
	}
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	r.close(t)
}

func (r *running) close(t *testing.T) {
	t.Helper()
	if err := r.Client.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	r.cancel = nil
}

func (r *running) put(t *testing.T, key, value string) {
	t.Helper()
	if _, err := r.Put(t.Context(), key, value); err != nil {
		t.Fatalf("Put = %v", err)
	}
}

func (r *running) wantValue(t *testing.T, key, value string) {
	t.Helper()
	res, err := r.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("Get = %v", err)
	}
	if len(res.Kvs) != 1 || string(res.Kvs[0].Value) != value {
		t.Fatalf("Get(%s) = %v, want %s", key, res.Kvs, value)
	}
}

func TestRestartKeepsData(t *testing.T) {
	dir := t.TempDir()
	r := run(t, Config{Dir: dir})
	r.put(t, "k", "v")
	r.stop(t)
	r = run(t, Config{Dir: dir})
	r.wantValue(t, "k", "v")
}

func TestTransactionsMayBeLarge(t *testing.T) {
	r := run(t, Config{Dir: t.TempDir()})
	var ops []clientv3.Op
	for i := range DefaultMaxTxnOps + 1 {
		ops = append(ops, clientv3.OpPut(fmt.Sprint(i), "v"))
	}
	if _, err := r.Txn(t.Context()).Then(ops[:DefaultMaxTxnOps]...).Commit(); err != nil {
		t.Errorf("%d operations: %v", DefaultMaxTxnOps, err)
	}
	if _, err := r.Txn(t.Context()).Then(ops...).Commit(); err == nil {
		t.Errorf("%d operations were accepted", len(ops))
	}
}

func TestWatchersDoNotDelayStop(t *testing.T) {
	r := run(t, Config{Dir: t.TempDir()})
	ctx, cancel := context.WithCancel(t.Context())
	watch := r.Watch(ctx, "k", clientv3.WithCreatedNotify())
	<-watch
	start := time.Now()
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	// Without endWith, etcd would give clients 7 s to leave.
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s to stop", took)
	}
	cancel()
	for range watch {
	}
	r.close(t)
}

func TestOneProcessADirectory(t *testing.T) {
	dir := t.TempDir()
	run(t, Config{Dir: dir})
	e, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	wantPrecondition(t, e.Run(t.Context()), dir, fmt.Sprintf("process %d is using it", os.Getpid()))
}

func TestDirectoryCannotBeMade(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(file, "etcd")
	e, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	wantPrecondition(t, e.Run(t.Context()), dir, "not a directory")
}

func TestTooLittleDiskToStart(t *testing.T) {
	dir := t.TempDir()
	e, err := New(Config{Dir: dir, Free: func(string) (int64, error) { return 1<<30 - 1, nil }})
	if err != nil {
		t.Fatal(err)
	}
	wantPrecondition(t, e.Run(t.Context()), dir, "1023 MiB of disk are free", "1.0 GiB")
	if _, err := os.Stat(filepath.Join(dir, "data")); !os.IsNotExist(err) {
		t.Errorf("it made its data directory: %v", err)
	}
}

func TestDiskFillsUp(t *testing.T) {
	dir := t.TempDir()
	var free atomic.Int64
	free.Store(2 << 30)
	cfg := Config{
		Dir:        dir,
		CheckEvery: time.Millisecond,
		Free:       func(string) (int64, error) { return free.Load(), nil },
	}
	r := run(t, cfg)
	r.put(t, "k", "v")
	free.Store(DefaultStopFree - 1)
	wantPrecondition(t, <-r.ended, dir, "255 MiB of disk are free", "256 MiB", "free some space")
	r.close(t)

	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantPrecondition(t, e.Run(t.Context()), dir, "start etcd")
	free.Store(2 << 30)
	r = run(t, cfg)
	r.wantValue(t, "k", "v")
}

func TestFsyncStaysOn(t *testing.T) {
	e, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	conf, err := e.embedConfig(t.Context(), e.cfg.Logger)
	if err != nil {
		t.Fatal(err)
	}
	if conf.UnsafeNoFsync {
		t.Error("fsync is off")
	}
}

func TestAwkwardPaths(t *testing.T) {
	for _, name := range []string{"with space", "per%cent?#&", strings.Repeat("long/", 30)} {
		t.Run(name[:5], func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			if !strings.HasPrefix(sockets.Dir(dir), dir) {
				t.Cleanup(func() { _ = os.Remove(sockets.Dir(dir)) })
			}
			r := run(t, Config{Dir: dir})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := r.Put(ctx, "k", "v"); err != nil {
				t.Fatal(err)
			}
			wantPrivate(t, sockets.Dir(dir))
		})
	}
}

func TestListensOnNoPort(t *testing.T) {
	before := listening(t)
	run(t, Config{Dir: t.TempDir()})
	for port := range listening(t) {
		if !before[port] {
			t.Errorf("listens on %s", port)
		}
	}
}

func TestListeningSeesListeners(t *testing.T) {
	before := len(listening(t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if after := len(listening(t)); after != before+1 {
		t.Errorf("listening found %d, want %d", after, before+1)
	}
}

// listening returns the internet sockets on which this process listens.
func listening(t *testing.T) map[string]bool {
	t.Helper()
	own := make(map[string]bool)
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		// Another goroutine may close a descriptor meanwhile.
		if target, err := os.Readlink(fd); err == nil {
			own[target] = true
		}
	}
	found := make(map[string]bool)
	for _, family := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile("/proc/self/net/" + family)
		if os.IsNotExist(err) {
			continue // a kernel without IPv6
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && (f[3] == "0A" || strings.HasPrefix(family, "udp")) && own["socket:["+f[9]+"]"] {
				found[family+" "+f[1]] = true
			}
		}
	}
	return found
}

func TestSocketsAreClosedToOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(sockets.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	r := run(t, Config{Dir: dir})
	if want := "unix://" + filepath.Join(dir, "run", "etcd.sock"); r.endpoint != want {
		t.Errorf("endpoint is %s, want %s", r.endpoint, want)
	}
	wantPrivate(t, sockets.Dir(dir))
}

func TestSocketDirOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/", sockets.Dir(dir)); err != nil {
		t.Fatal(err)
	}
	_, err := sockets.Make(dir)
	wantPrecondition(t, err, sockets.Dir(dir), "not a directory of user")
}

func TestConfigIsValidated(t *testing.T) {
	_, err := New(Config{Dir: "relative", MaxTxnOps: 1, QuotaBytes: 1, StartFree: 1, CheckEvery: -1})
	for _, field := range []string{"dir:", "max txn ops:", "quota bytes:", "start free:", "check every:"} {
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("New = %v, want Invalid naming %q", err, field)
		}
	}
}

func wantPrivate(t *testing.T, dir string) {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode of %s is %s, want 0700", dir, info.Mode())
	}
}

func wantPrecondition(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !types.Is(err, types.Precondition) {
		t.Fatalf("error is %v, want of class Precondition", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error is %q, want it to contain %q", err, p)
		}
	}
}
