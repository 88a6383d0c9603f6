// Package execlog writes the log of what a node runs (package execution): durably, as a
// process that nobody noted could not be proved to have ended.
package execlog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/bounded"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

const (
	// DefaultMaxBytes is how long the log gets before it is put aside: with the one
	// before it, some ten thousand executions are known.
	DefaultMaxBytes = 8 << 20
	// reserved is the room that is kept on the disk for ends, so that one that fills
	// up keeps starts from being noted and not ends.
	reserved = 64 << 10
	// lineBytes is what the line of an end takes at most, as a rule.
	lineBytes = 512
	// patience is how long an end waits to be noted: what it holds is wanted elsewhere.
	patience = 5 * time.Second
	// retryEvery is the wait between two tries to note an end.
	retryEvery = 100 * time.Millisecond
	// closeWait is how long the last records are waited for.
	closeWait = 2 * time.Second
	fileMode  = 0o600
)

// Config says where the log is, and what time it is.
type Config struct {
	// Dir is the state directory of the agent.
	Dir string
	// BootClock is the time since BootID, the boot.
	BootClock func() time.Duration
	BootID    string
	// MaxBytes is how long the log gets; 0 is DefaultMaxBytes.
	MaxBytes int64
}

// Log is the log of one node. Records that come at the same time share one wait for the
// disk. It is safe for concurrent use. There is one writer, but for Append.
type Log struct {
	cfg  Config
	path string

	mu sync.Mutex
	// next are the records that wait, nil if there are none; idle is closed when those
	// before are written, nil if they are.
	next    *batch
	idle    chan struct{}
	running execution.Running

	// What follows is the writer's alone.
	file *os.File
	size int64
	// kept is up to where room is reserved.
	kept int64
	// torn tells that the last line may be half there.
	torn bool
}

// batch is what is written at once.
type batch struct {
	lines   []byte
	records []execution.Record
	// start tells that one of them is: then there must be room for its end.
	start bool
	done  chan struct{}
	err   error
}

// Open opens the log of a state directory, and makes it if there is none. Precondition: it
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

// endEarlier notes that nothing of an earlier boot runs: for the audit, which cannot tell
// otherwise from a node that runs nothing ever again.
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

// Close closes the file once what was noted is written. Unavailable: that takes too long,
// as the disk hangs; what was noted last may be lost.
func (l *Log) Close() error {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle != nil && !bounded.Wait(idle, closeWait) {
		return types.Errorf(types.Unavailable, "close log of executions: it is still being written after %s", closeWait)
	}
	return l.file.Close()
}

// Start notes a start, and returns when that is durable. Only then may a process be
// started. Unavailable: it is not, for the disk is full for instance.
func (l *Log) Start(ctx context.Context, r execution.Record) error {
	r.Event = execution.Start
	if err := l.note(ctx, r); err != nil {
		return types.Errorf(types.Unavailable, "note the start of %s before it: %w", r.Container, err)
	}
	return nil
}

// End notes an end, and returns when that is durable: only then may it be reported, for
// then another attempt may start. It tries for some seconds, and no longer: an end that
// cannot be noted is reported all the same, and the audit says so. What was never noted to
// have started need not be noted to have ended.
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

// Running returns the starts whose end was not noted.
func (l *Log) Running() []execution.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]execution.Record, 0, len(l.running))
	for _, r := range l.running {
		list = append(list, r)
	}
	return list
}

// note hands a record to whoever writes, and returns when it is durable.
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
		return ctx.Err() // The disk hangs: nobody waits for it for ever.
	}
	return b.err
}

// write writes what waits until nothing does.
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

// noted applies what is durable.
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
	return unix.Fdatasync(int(l.file.Fd()))
}

// reserve keeps room on the disk for what is about to be written, and the ends of what
// runs. File systems that cannot are taken as they are.
func (l *Log) reserve(bytes int64) error {
	if l.size+bytes+reserved/2 < l.kept {
		return nil
	}
	want := bytes + reserved
	err := unix.Fallocate(int(l.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, l.size, want)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
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

// rotate puts the log aside and begins another with what runs. The new one is whole
// before it has the name.
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

// Append appends records to the log of a state directory, for the watchdog: whole lines,
// whoever else writes there.
func Append(dir string, records ...execution.Record) error {
	lines := []byte{'\n'} // What is before may be torn.
	for i := range records {
		lines = execution.AppendLine(lines, &records[i])
	}
	file, err := os.OpenFile(filepath.Join(dir, execution.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, fileMode)
	if err == nil {
		_, err = file.Write(lines)
		if err == nil {
			err = unix.Fdatasync(int(file.Fd()))
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
