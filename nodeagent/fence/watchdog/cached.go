//go:build linux

package watchdog

import (
	"os"
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
)

// readWait limits the wait for a file. It is far less than the time between the kill and the
// deadline.
const readWait = 100 * time.Millisecond

// cached is the last content of a file that could be read. A goroutine reads the file when it
// changes: while the disk hangs, the last content counts.
type cached[T any] struct {
	mu sync.Mutex
	// reading is closed when the current read ends; nil means no read.
	reading chan struct{}
	at      time.Time
	size    int64
	value   T
}

func (c *cached[T]) get(path string, read func(path string) (T, error)) T {
	c.mu.Lock()
	reading := c.reading
	if reading == nil {
		reading = make(chan struct{})
		c.reading = reading
		go c.refresh(path, read, reading)
		c.mu.Unlock()
		bounded.Wait(reading, readWait)
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	return c.value
}

// refresh reads the file if it has changed.
func (c *cached[T]) refresh(path string, read func(path string) (T, error), done chan struct{}) {
	c.mu.Lock()
	at, size := c.at, c.size
	c.mu.Unlock()
	var value T
	changed := false
	info, err := os.Stat(path)
	if err == nil && !(info.ModTime().Equal(at) && info.Size() == size) {
		value, err = read(path)
		changed = err == nil
	}
	c.mu.Lock()
	if changed {
		c.at, c.size, c.value = info.ModTime(), info.Size(), value
	}
	c.reading = nil
	c.mu.Unlock()
	close(done)
}
