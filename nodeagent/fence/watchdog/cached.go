package watchdog

import (
	"os"
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
)

// readWait is how long a file is waited for: far less than lies between the moment to kill
// and the deadline.
const readWait = 100 * time.Millisecond

// cached is what was read of a file, as long as it does not change, or cannot be read. It
// is read by a goroutine of its own: while the disk hangs, what was read last counts.
type cached[T any] struct {
	mu sync.Mutex
	// reading is closed when the file was looked at, nil while nobody does.
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

// refresh reads the file if it is another one.
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
