//go:build linux

// Package watchdog kills the containers of a node at the deadline of the node's session if its
// agent does not: because it is dead, frozen, or waits for a disk. The watchdog is its own process,
// and needs no agent, no container runtime and no store for the kill: it reads the deadline that
// the agent writes at every renewal, waits by a clock that includes suspension, and kills by
// cgroup.
package watchdog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/bounded"
	"github.com/escher-sched/escher/types"
)

const (
	// pageFile is the file of the deadline in the agent's state directory.
	pageFile = "deadline"
	pageSize = 4096

	// The page has a magic number, the time to kill in nanoseconds of the boot clock, the id of the
	// boot, and the CRC-32C of all that, in network byte order.
	pageMagic  = 0x45736368_65723031
	bootIDSize = 48
	sumAt      = 8 + 8 + bootIDSize
	recordSize = sumAt + 4
)

// Page holds the time until which the containers of a node may run. It is one page of an existing
// file that never grows: a write needs no space on a full disk. It is safe for concurrent use.
type Page struct {
	file *os.File
	// busy is full while a call waits for the disk.
	busy chan struct{}
}

// OpenPage opens the page of a state directory, and makes it if there is none. Precondition: that
// is not possible.
func OpenPage(dir string) (*Page, error) {
	file, err := os.OpenFile(filepath.Join(dir, pageFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "open the deadline of the session: %w", err)
	}
	p := &Page{file, make(chan struct{}, 1)}
	info, err := file.Stat()
	if err == nil && info.Size() < pageSize {
		// Written zeros, and not a hole, allocate the space now.
		_, err = file.WriteAt(make([]byte, pageSize), 0)
	}
	if err != nil {
		return nil, types.Errorf(types.Precondition, "make room for the deadline of the session: %w", errors.Join(err, file.Close()))
	}
	return p, nil
}

// Set stores when to kill the containers, on the boot clock of a boot. Unavailable: it is not
// stored, or not before ctx was done; then it may be stored later.
func (p *Page) Set(ctx context.Context, killAt time.Duration, bootID string) error {
	return p.wait(ctx, func() error {
		_, err := p.file.WriteAt(encodePage(killAt, bootID), 0)
		return err
	})
}

// Check checks that a deadline could be stored, by writing the present one again. Unavailable: it
// could not, or not before ctx was done.
func (p *Page) Check(ctx context.Context) error {
	return p.wait(ctx, func() error {
		b := make([]byte, recordSize)
		if _, err := p.file.ReadAt(b, 0); err != nil {
			return err
		}
		_, err := p.file.WriteAt(b, 0)
		return err
	})
}

// wait calls do after the previous call has ended, and waits for it until ctx is done: a hanging
// disk never returns.
func (p *Page) wait(ctx context.Context, do func() error) error {
	var err error
	select {
	case p.busy <- struct{}{}:
		var ok bool
		if err, ok = bounded.Do(ctx, func() error { defer func() { <-p.busy }(); return do() }); !ok {
			err = ctx.Err()
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return types.Errorf(types.Unavailable, "note the deadline of the session in %s: %w", p.file.Name(), err)
	}
	return nil
}

// Close closes the file; its content stays.
func (p *Page) Close() error { return p.file.Close() }

// view maps the page, so that it can be read without disk access under memory pressure.
func (p *Page) view() ([]byte, error) {
	mem, err := unix.Mmap(int(p.file.Fd()), 0, pageSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "map the deadline of the session: %w", err)
	}
	return mem, nil
}

func encodePage(killAt time.Duration, bootID string) []byte {
	b := make([]byte, recordSize)
	binary.BigEndian.PutUint64(b, pageMagic)
	binary.BigEndian.PutUint64(b[8:], uint64(killAt))
	copy(b[16:sumAt], bootID)
	binary.BigEndian.PutUint32(b[sumAt:], checksum(b[:sumAt]))
	return b
}

// decodePage decodes a page; ok is false if none was set or a write is under way.
func decodePage(page []byte) (killAt time.Duration, bootID string, ok bool) {
	b := bytes.Clone(page[:recordSize])
	if binary.BigEndian.Uint64(b) != pageMagic || binary.BigEndian.Uint32(b[sumAt:]) != checksum(b[:sumAt]) {
		return 0, "", false
	}
	return time.Duration(binary.BigEndian.Uint64(b[8:])), string(bytes.TrimRight(b[16:sumAt], "\x00")), true
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
