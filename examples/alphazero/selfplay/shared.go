package selfplay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seat is the shared memory of one generator and the predictor. The generator writes a position and
// then its request, the predictor an answer and then that it answered. Each polls for the other.
type seat struct {
	state atomic.Uint32
	_     [60]byte // the polled word has its own cache line
	board Board
	_     [64]byte
	reply Answer
	_     [64]byte
}

// The states of a seat.
const (
	idle = iota
	asked
	answered
)

// table is the seats of a predictor, in a mapped file. The predictor holds a lock on the file for
// as long as it lives, however it ends.
type table struct {
	file   *os.File
	memory []byte
	seats  []*seat
}

// makeTable makes the file atomically, with so many seats.
func makeTable(path string, seats int) (*table, error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return nil, fmt.Errorf("make a table: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
	if err == nil {
		err = file.Truncate(int64(seats) * int64(unsafe.Sizeof(seat{})))
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make table %s: %w", path, err), os.Remove(file.Name()), file.Close())
	}
	return mapTable(file)
}

// openTable maps the file of a predictor on this node. fs.ErrNotExist: it is on another node, has
// not begun, or was killed.
func openTable(path string) (*table, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if abandoned(file) {
		return nil, errors.Join(fmt.Errorf("table %s: its predictor is gone: %w", path, fs.ErrNotExist), file.Close())
	}
	return mapTable(file)
}

// abandoned reports whether the predictor of a file is dead.
func abandoned(file *os.File) bool {
	if err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return false
	}
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN) // no other process waits for it
	return true
}

// mapTable maps a file, which the table then owns.
func mapTable(file *os.File) (*table, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	t := &table{file: file}
	if t.memory, err = unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map %s: %w", file.Name(), err), file.Close())
	}
	for at := 0; at+int(unsafe.Sizeof(seat{})) <= len(t.memory); at += int(unsafe.Sizeof(seat{})) {
		t.seats = append(t.seats, (*seat)(unsafe.Pointer(&t.memory[at])))
	}
	return t, nil
}

// close unmaps it: no request may be pending.
func (t *table) close() error { return errors.Join(unix.Munmap(t.memory), t.file.Close()) }

// serve answers all requests until ctx is done.
func (t *table) serve(ctx context.Context) error {
	for nothing := 0; ; nothing++ {
		for _, s := range t.seats {
			if s.state.Load() == asked {
				Predict(&s.board, &s.reply)
				s.state.Store(answered)
				nothing = 0
			}
		}
		if err := pause(ctx, nothing); err != nil {
			return err
		}
	}
}

// A waiting side first polls at once, then yields the processor, and after a while without success
// sleeps between two polls.
const (
	spins, yields = 100, 20_000
	nap           = 100 * time.Microsecond
	// patience is after how many naps to check whether the other side is alive.
	patience = 100
)

// pause waits until the next poll, after so many without success. Its error is that of ctx.
func pause(ctx context.Context, nothing int) error {
	switch {
	case nothing < spins:
		return nil
	case nothing < yields:
		_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // it cannot fail
	default:
		time.Sleep(nap)
	}
	return ctx.Err()
}

// beside asks by shared memory.
type beside struct {
	table *table
	seat  *seat
}

// sit takes a seat at the table of a predictor on this node.
func sit(path string, number int) (*beside, error) {
	t, err := openTable(path)
	if err != nil {
		return nil, err
	}
	if number >= len(t.seats) {
		return nil, errors.Join(fmt.Errorf("seat %d of %s: it has %d, from 0 on", number, path, len(t.seats)), t.close())
	}
	t.seats[number].state.Store(idle)
	return &beside{table: t, seat: t.seats[number]}, nil
}

// Board implements Predictor.
func (p *beside) Board() *Board { return &p.seat.board }

// Ask implements Predictor. It notices a killed predictor a moment later.
func (p *beside) Ask(ctx context.Context) (*Answer, error) {
	p.seat.state.Store(asked)
	for nothing := 0; p.seat.state.Load() != answered; nothing++ {
		if nothing > yields && nothing%patience == 0 && abandoned(p.table.file) {
			return nil, errors.New("the predictor was killed: it does not answer any more")
		}
		if err := pause(ctx, nothing); err != nil {
			return nil, err
		}
	}
	return &p.seat.reply, nil
}

// Close implements Predictor.
func (p *beside) Close() error {
	p.seat.state.Store(idle)
	return p.table.close()
}
