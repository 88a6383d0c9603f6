// Package execlog writes the log of a node's executions (package execution). It writes durably:
// otherwise the end of a lost execution could not be proved.
package execlog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/bounded"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

const (
	// DefaultMaxBytes is the size at which the log is rotated: with its predecessor, it covers some
	// ten thousand executions.
	DefaultMaxBytes = 8 << 20
	// reserved is the disk space reserved for ends: a full disk then prevents the log of starts,
	// but not of ends.
	reserved = 64 << 10
	// lineBytes is the usual maximum size of the line of an end.
	lineBytes = 512
	// patience limits how long an end waits to be logged: other tasks wait for its resources.
	patience = 5 * time.Second
	// retryEvery is the wait between two tries to note an end.
	retryEvery = 100 * time.Millisecond
	// closeWait limits the wait for the last records.
	closeWait = 2 * time.Second
	fileMode  = 0o600
)

// Config configures the location and the clock of a log.
type Config struct {
	// Dir is the state directory of the agent.
	Dir string
	// BootClock returns the time since the boot BootID.
	BootClock func() time.Duration
	BootID    string
	// MaxBytes is the size at which the log is rotated; 0 means DefaultMaxBytes.
	MaxBytes int64
}

// Log is the log of one node. Concurrent records share one wait for the disk. It is safe for
// concurrent use. Except for Append, it is the only writer of the file.
type Log struct {
	cfg  Config
	path string

	mu sync.Mutex
	// next is the batch of waiting records; nil means none. idle is closed when all earlier batches
	// are written; nil if they are.
	next    *batch
	idle    chan struct{}
	running execution.Running

	// The fields below belong to the writer alone.
	file *os.File
	size int64
	// kept is the offset up to which disk space is reserved.
	kept int64
	// torn reports whether the last line may be incomplete.
	torn bool
}

// batch is a set of records written together.
type batch struct {
	lines   []byte
	records []execution.Record
	// start reports whether one is a start: then it reserves space for its end.
	start bool
	done  chan struct{}
	err   error
}

// Open opens the log of a state directory, and makes it if there is none. Precondition: the log
// cannot be read or written.
func Open(cfg Config) (*Log, error) {
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	l := &Log{cfg: cfg, path: filepath.Join(cfg.Dir, execution.Name), running: make(execution.Running)}
	if _, err := execution.ReadFile(l.path, l.running.Note); err != nil && !types.Is(err, types.NotFound) {
		return nil, types.Errorf(types.Precondition, "open log of executions: %w", err)
	}
	if err := l.open(); err != nil {
		return nil, types.Errorf(types.Precondition, "open log of executions: %w", err)
	}
	if err := l.endEarlier(); err != nil {
		return nil, types.Errorf(types.Precondition, "note in the log of executions what ended with the machine: %w", errors.Join(err, l.file.Close()))
	}
	return l, nil
}

// endEarlier logs that no execution of an earlier boot runs. The audit needs it: otherwise it could
// not tell this case from a node that never runs anything again.
func (l *Log) endEarlier() error {
	b := &batch{}
	for _, r := range l.running {
		if r.BootID != l.cfg.BootID {
			r.Event, r.Reason = execution.End, "the machine was started again"
			r.Stamp(time.Now(), l.cfg.BootClock(), l.cfg.BootID)
			b.lines = execution.AppendLine(b.lines, &r)
			b.records = append(b.records, r)
		}
	}
	if len(b.records) == 0 {
		return nil
	}
	if err := l.commit(b, 0); err != nil {
		return err
	}
	l.noted(b.records)
	return nil
}

// Close closes the file once all records are written. Unavailable: that takes too long because the
// disk hangs, and the last records may be lost.
func (l *Log) Close() error {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle != nil && !bounded.Wait(idle, closeWait) {
		return types.Errorf(types.Unavailable, "close log of executions: it is still being written after %s", closeWait)
	}
	return l.file.Close()
}

// Start logs a start, and returns once it is durable. Only then may the process start. Unavailable:
// it could not be logged, for example because the disk is full.
func (l *Log) Start(ctx context.Context, r execution.Record) error {
	r.Event = execution.Start
	if err := l.note(ctx, r); err != nil {
		return types.Errorf(types.Unavailable, "note the start of %s before it: %w", r.Container, err)
	}
	return nil
}

// End logs an end, and returns once it is durable. Only then may the end be reported, because
// another attempt may start then. It retries for patience: a caller reports an end that cannot be
// logged all the same, and the audit shows it. It skips an end without a logged start.
func (l *Log) End(ctx context.Context, r execution.Record) error {
	l.mu.Lock()
	_, known := l.running[r.Key()]
	l.mu.Unlock()
	if !known {
		return nil
	}
	r.Event = execution.End
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := l.note(ctx, r)
		if err == nil {
			return nil
		}
		if supervise.Pause(ctx, retryEvery) != nil {
			return types.Errorf(types.Unavailable, "note the end of %s: %w", r.Container, err)
		}
	}
}

// Running returns the starts without a logged end.
func (l *Log) Running() []execution.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]execution.Record, 0, len(l.running))
	for _, r := range l.running {
		list = append(list, r)
	}
	return list
}

// note hands a record to the writer, and returns once it is durable.
func (l *Log) note(ctx context.Context, r execution.Record) error {
	l.mu.Lock()
	r.Stamp(time.Now(), l.cfg.BootClock(), l.cfg.BootID)
	if l.next == nil {
		l.next = &batch{done: make(chan struct{})}
	}
	b := l.next
	b.lines = execution.AppendLine(b.lines, &r)
	b.records = append(b.records, r)
	b.start = b.start || r.Event == execution.Start
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.write()
	}
	l.mu.Unlock()
	select {
	case <-b.done:
	case <-ctx.Done():
		return ctx.Err() // The disk hangs: do not wait forever.
	}
	return b.err
}

// write writes batches until none waits.
func (l *Log) write() {
	for {
		l.mu.Lock()
		b := l.next
		l.next = nil
		if b == nil {
			close(l.idle)
			l.idle = nil
			l.mu.Unlock()
			return
		}
		open := len(l.running)
		l.mu.Unlock()
		if b.err = l.commit(b, open); b.err == nil {
			l.noted(b.records)
		}
		close(b.done)
	}
}

// noted applies durable records.
func (l *Log) noted(records []execution.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.running.Note(r)
	}
}

// commit makes a batch durable.
func (l *Log) commit(b *batch, open int) error {
	if l.size > l.cfg.MaxBytes {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if b.start {
		if err := l.reserve(int64(len(b.lines)) + int64(open)*lineBytes); err != nil {
			return err
		}
	}
	lines := b.lines
	if l.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := l.file.Write(lines)
	l.size += int64(n)
	if err != nil {
		l.torn = l.torn || n > 0
		return err
	}
	l.torn = false
	return datasync(l.file)
}

// reserve reserves disk space for the batch and for the ends of running executions. It does nothing
// on file systems that cannot reserve.
func (l *Log) reserve(bytes int64) error {
	if l.size+bytes+reserved/2 < l.kept {
		return nil
	}
	want := bytes + reserved
	err := allocate(l.file, l.size, want)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil
	case err == nil:
		l.kept = l.size + want
	}
	return err
}

// open opens the file to append to.
func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_RDWR, fileMode)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.size, l.kept = file, info.Size(), 0
	l.torn = false
	if last := make([]byte, 1); l.size > 0 {
		_, err := file.ReadAt(last, l.size-1)
		l.torn = err != nil || last[0] != '\n'
	}
	return nil
}

// rotate renames the log and begins a new one with the running executions. The new one is complete
// before it gets the name.
func (l *Log) rotate() error {
	l.mu.Lock()
	var lines []byte
	for _, r := range l.running {
		lines = execution.AppendLine(lines, &r)
	}
	l.mu.Unlock()
	next := l.path + ".new"
	if err := writeFile(next, lines); err != nil {
		return err
	}
	if err := os.Rename(l.path, execution.Previous(l.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(next, l.path); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(l.path)); err != nil {
		return err
	}
	old := l.file
	if err := l.open(); err != nil {
		return err
	}
	_ = old.Close() // All of it is on the disk.
	return nil
}

// Append appends records to the log of a state directory, for the watchdog. It appends whole lines,
// even while the agent writes.
func Append(dir string, records ...execution.Record) error {
	lines := []byte{'\n'} // The line before may be incomplete.
	for i := range records {
		lines = execution.AppendLine(lines, &records[i])
	}
	file, err := os.OpenFile(filepath.Join(dir, execution.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, fileMode)
	if err == nil {
		_, err = file.Write(lines)
		if err == nil {
			err = datasync(file)
		}
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return types.Errorf(types.Unavailable, "note what was killed: %w", err)
	}
	return nil
}

func writeFile(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
