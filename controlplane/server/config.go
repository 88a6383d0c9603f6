package server

import (
	"errors"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// Config is what an Etcd is made of. Only Dir must be set.
type Config struct {
	// Dir is where everything of it is kept: data, log and, where the path is
	// short enough, socket. It is made if it is missing.
	Dir string
	// Logger is told of starts, stops and trouble; nil is none. The log of
	// etcd itself goes to the file etcd.log in Dir.
	Logger *zap.Logger
	// Ready, if set, is called once when etcd serves, with the endpoint that
	// clients are to use.
	Ready func(endpoint string)

	// MaxTxnOps is how many operations a transaction may have.
	MaxTxnOps int
	// QuotaBytes is how large the database may grow.
	QuotaBytes int64

	// StartFree is how many bytes must be free on the disk of Dir for etcd to
	// start, StopFree how many for it to go on.
	StartFree, StopFree int64
	// CheckEvery is the time between two looks at the disk.
	CheckEvery time.Duration
	// Free returns how many bytes are free on the disk of dir.
	Free func(dir string) (int64, error)
}

// The defaults of Config.
const (
	// DefaultMaxTxnOps lets the grant of a gang of a thousand nodes, or the
	// binding of a thousand tasks, be one transaction. etcd's own is 128.
	DefaultMaxTxnOps = 4096
	// DefaultQuotaBytes is the largest that etcd recommends: a restart reads
	// all of it.
	DefaultQuotaBytes = 8 << 30
	// DefaultStartFree leaves room for hours of work.
	DefaultStartFree = 1 << 30
	// DefaultStopFree is room for what etcd needs to stop in order: it makes
	// its log in segments of 64 MiB, and ends the process, in the middle of
	// whatever it does, when it cannot make the next.
	DefaultStopFree = 256 << 20
	// defaultCheckEvery is short, as a fast disk takes hundreds of MiB a
	// second, and looking costs microseconds.
	defaultCheckEvery = time.Second
)

// withDefaults fills in what is not set.
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

// validate reports all that is wrong at once.
func (c Config) validate() error {
	var errs []error
	wrong := func(format string, args ...any) {
		errs = append(errs, types.Errorf(types.Invalid, format, args...))
	}
	if c.Dir == "" {
		wrong("dir: is empty: name the directory to keep etcd's data in")
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
