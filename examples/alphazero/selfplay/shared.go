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

// seat is where one generator and the predictor meet in shared memory: the generator
// writes a position and then that it asks, the predictor an answer and then that it
// answered. Each waits for the other by looking.
type seat struct {
	state atomic.Uint32
	_     [60]byte // what both look at is alone in its cache line
	board Board
	_     [64]byte
	reply Answer
	_     [64]byte
}

// What a seat may be.
const (
	idle = iota
	asked
	answered
)

// table is the seats of a predictor, in a file that is mapped. The predictor has the file
// locked for as long as it lives, however it ends.
type table struct {
	file   *os.File
	memory []byte
	seats  []*seat
}

// makeTable makes the file of so many seats, which is there as a whole or not at all.
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

// openTable maps the file of a predictor of this node. fs.ErrNotExist: it is on another
// one, has not begun, or was killed.
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

// abandoned reports whether the predictor that has made a file lives no more.
func abandoned(file *os.File) bool {
	if err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return false
	}
	_ = unix.Flock(int(file.Fd()), unix.LOCK_UN) // nobody waits for it
	return true
}

// mapTable maps a file, which is the table's from then on.
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

// close unmaps it: nobody may be at it any more.
func (t *table) close() error { return errors.Join(unix.Munmap(t.memory), t.file.Close()) }

// serve answers all who ask, until ctx is done.
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

// Who waits looks again at once at first, then lets others have the processor, and when
// nothing has come for a while sleeps between two looks.
const (
	spins, yields = 100, 20_000
	nap           = 100 * time.Microsecond
	// patience is after how many naps it is asked whether there is anybody to wait for.
	patience = 100
)

// pause passes time until the next look, after so many looks in vain. Its error is why ctx
// is done.
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

// sit takes a seat at the table of a predictor of this node.
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

// Ask implements Predictor. Of a predictor that was killed it is known a moment later.
func (p *beside) Ask(ctx context.Context) (*Answer, error) {
	p.seat.state.Store(asked)
	for nothing := 0; p.seat.state.Load() != answered; nothing++ {
		if nothing > yields && nothing%patience == 0 && abandoned(p.table.file) {
			return nil, errors.New("the predictor was killed: it answers nobody any more")
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
