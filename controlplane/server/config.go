package server

import (
	"errors"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// Config configures an Etcd. Only Dir is required.
type Config struct {
	// Dir is the directory for data, log and, if the path is short enough, socket. Run creates it
	// if it is missing.
	Dir string
	// Logger logs starts, stops and trouble; nil disables logging. etcd's own log goes to the file
	// etcd.log in Dir.
	Logger *zap.Logger
	// Ready, unless nil, is called once when etcd serves, with the endpoint for clients.
	Ready func(endpoint string)

	// MaxTxnOps is the largest number of operations in a transaction.
	MaxTxnOps int
	// QuotaBytes is the largest size of the database in bytes.
	QuotaBytes int64

	// StartFree is the free disk space of Dir in bytes that etcd needs to start, StopFree what it
	// needs to continue.
	StartFree, StopFree int64
	// CheckEvery is the time between two checks of the disk.
	CheckEvery time.Duration
	// Free returns the free bytes on the disk of dir.
	Free func(dir string) (int64, error)
}

// The defaults of Config.
const (
	// DefaultMaxTxnOps lets the grant of a gang on a thousand nodes, or the binding of a thousand
	// tasks, be one transaction. etcd's own default is 128.
	DefaultMaxTxnOps = 4096
	// DefaultQuotaBytes is the largest size that etcd recommends: a restart reads all of it.
	DefaultQuotaBytes = 8 << 30
	// DefaultStartFree leaves space for hours of work.
	DefaultStartFree = 1 << 30
	// DefaultStopFree is the space that etcd needs to stop cleanly. It allocates its log in
	// segments of 64 MiB, and exits in the middle of its work if it cannot allocate the next one.
	DefaultStopFree = 256 << 20
	// defaultCheckEvery is short, because a fast disk fills by hundreds of MiB a second, and a
	// check costs microseconds.
	defaultCheckEvery = time.Second
)

// withDefaults fills in the defaults.
func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Ready == nil {
		c.Ready = func(string) {}
	}
	if c.MaxTxnOps == 0 {
		c.MaxTxnOps = DefaultMaxTxnOps
	}
	if c.QuotaBytes == 0 {
		c.QuotaBytes = DefaultQuotaBytes
	}
	if c.StartFree == 0 {
		c.StartFree = DefaultStartFree
	}
	if c.StopFree == 0 {
		c.StopFree = DefaultStopFree
	}
	if c.CheckEvery == 0 {
		c.CheckEvery = defaultCheckEvery
	}
	if c.Free == nil {
		c.Free = FreeBytes
	}
	return c
}

// validate returns all problems at once.
func (c Config) validate() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, types.Errorf(types.Invalid, format, args...))
	}
	if c.Dir == "" {
		wrong("dir: is empty: name the directory for etcd's data")
	} else if !filepath.IsAbs(c.Dir) {
		wrong("dir: %q is relative: use an absolute path", c.Dir)
	}
	if c.MaxTxnOps < 128 {
		wrong("max txn ops: %d is less than etcd's own 128: use at least that", c.MaxTxnOps)
	}
	if c.QuotaBytes < 16<<20 {
		wrong("quota bytes: %d is less than 16 MiB: use at least that", c.QuotaBytes)
	}
	if c.StopFree < 0 || c.StartFree < c.StopFree {
		wrong("start free: %d is less than stop free, %d: etcd would stop at once, raise it", c.StartFree, c.StopFree)
	}
	if c.CheckEvery < 0 {
		wrong("check every: %s is negative: use a positive time", c.CheckEvery)
	}
	if len(errs) == 0 {
		return nil
	}
	return types.Errorf(types.Invalid, "%w", errors.Join(errs...))
}
