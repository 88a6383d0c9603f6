// Package server runs the servers of a cluster: the etcd that Escher runs itself, and the collector
// of finished and ownerless objects. It is the only package that imports etcd's server.
package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/controlplane/sockets"
	"github.com/escher-sched/escher/types"
)

// Etcd is a single-member etcd within this process. Clients reach it over a Unix socket in a
// directory that only its user can enter; it listens on no port.
type Etcd struct {
	cfg Config
}

// New returns an Etcd to Run. Invalid: the error names all that is wrong with cfg.
func New(cfg Config) (*Etcd, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Etcd{cfg: cfg}, nil
}

// Endpoint returns the address for clients while it runs.
func (e *Etcd) Endpoint() string { return sockets.Etcd(e.cfg.Dir) }

// Run starts etcd and serves until ctx is done, and then returns nil. When it returns, etcd has
// stopped and every acknowledged write is on disk.
//
// Precondition: it refused to start, because the directory is unusable, another process uses it, or
// its disk has too little free space; or it stopped because the disk filled up. A later start with
// enough space finds everything. Internal: etcd gave up. The process must then end, because parts
// of etcd may still run.
func (e *Etcd) Run(ctx context.Context) (err error) {
	release, err := Lock(e.cfg.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := checkDisk("start etcd", e.cfg.Dir, e.cfg.StartFree, e.cfg.Free); err != nil {
		return err
	}
	log, err := openLogFile(filepath.Join(e.cfg.Dir, "etcd.log"), maxLogBytes)
	if err != nil {
		return err
	}
	defer log.close()
	fatal := make(fatalHook, 1)
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	conf, err := e.embedConfig(streams, etcdLogger(log, fatal))
	if err != nil {
		return err
	}
	etcd, err := start(conf, fatal)
	if err != nil {
		return types.Errorf(types.ClassOf(err), "start etcd in %s: %w; see %s", e.cfg.Dir, err, log.path)
	}
	err = e.serve(ctx, etcd, fatal)
	if types.Is(err, types.Internal) {
		return types.Errorf(types.Internal, "run etcd in %s: %w; see %s", e.cfg.Dir, err, log.path)
	}
	endStreams()
	etcd.Close()
	e.cfg.Logger.Info("etcd stopped", zap.String("path", e.cfg.Dir))
	return err
}

// start starts etcd on its own goroutine, because etcd may end that goroutine.
func start(conf *embed.Config, fatal fatalHook) (*embed.Etcd, error) {
	type outcome struct {
		etcd *embed.Etcd
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- outcome{err: types.Errorf(types.Internal, "%v", p)}
			}
		}()
		etcd, err := embed.StartEtcd(conf)
		done <- outcome{etcd, err}
	}()
	select {
	case o := <-done:
		return o.etcd, o.err
	case why := <-fatal:
		return nil, types.Errorf(types.Internal, "%s", why)
	}
}

// serve waits for the end of ctx, of disk space, or of etcd itself; only the last case is an error
// of class Internal.
func (e *Etcd) serve(ctx context.Context, etcd *embed.Etcd, fatal fatalHook) error {
	tick := time.NewTicker(e.cfg.CheckEvery)
	defer tick.Stop()
	ready := etcd.Server.ReadyNotify()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
			ready = nil
			e.cfg.Logger.Info("etcd serves", zap.String("path", e.cfg.Dir), zap.String("address", e.Endpoint()))
			e.cfg.Ready(e.Endpoint())
		case why := <-fatal:
			return types.Errorf(types.Internal, "%s", why)
		case err := <-etcd.Err():
			return types.Errorf(types.Internal, "%w", err)
		case <-etcd.Server.StopNotify():
			return types.Errorf(types.Internal, "it stopped by itself")
		case <-tick.C:
			if err := checkDisk("run etcd", e.cfg.Dir, e.cfg.StopFree, e.cfg.Free); err != nil {
				e.cfg.Logger.Error("etcd stops", zap.Error(err))
				return err
			}
		}
	}
}

// embedConfig returns the configuration of etcd, with streams that end with a context.
func (e *Etcd) embedConfig(streams context.Context, log *zap.Logger) (*embed.Config, error) {
	run, err := sockets.Make(e.cfg.Dir)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(e.cfg.Dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, types.Errorf(types.Precondition, "make directory %s: %w", data, err)
	}
	conf := embed.NewConfig()
	conf.Name = memberName
	conf.Dir = data
	conf.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	listenOn(conf, filepath.Join(run, sockets.EtcdName))

	// A single member waits for no heartbeat, and each tick wakes an idle process. The same is true
	// of writes to the database, whose content is already in the log. An election still takes at
	// most a second, and leases may be as short as 2 s.
	conf.TickMs, conf.ElectionMs = 200, 1000
	conf.BackendBatchInterval = 500 * time.Millisecond

	conf.MaxTxnOps = uint(e.cfg.MaxTxnOps)
	conf.QuotaBackendBytes = e.cfg.QuotaBytes
	// Compacting a busy minute of history a thousand revisions at a time takes longer than that
	// minute.
	conf.CompactionBatchLimit = 10_000
	// Watchers of quiet ranges learn their progress often enough that compaction never overtakes
	// them.
	conf.WatchProgressNotifyInterval = 10 * time.Second
	// The windows are the data in flight of one call and of all. By default gRPC sizes them with a
	// ping for most isolated requests, which costs both sides more than a lease renewal itself.
	conf.GRPCAdditionalServerOptions = []grpc.ServerOption{
		grpc.StaticStreamWindowSize(4 << 20), grpc.StaticConnWindowSize(16 << 20),
		grpc.ChainStreamInterceptor(endWith(streams)),
	}
	return conf, nil
}
