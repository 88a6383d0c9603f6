// Package attach passes inputs of clients to the processes of containers. Runtimes share it. A
// container has at most one client.
package attach

import (
	"context"
	"io"
	"sync"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// chunk is the size of a read from the client.
const chunk = 32 << 10

// Process is the side of the process.
type Process struct {
	// Taken is the number of bytes that it has been given so far.
	Taken int64
	// Write gives it some of the data, and waits until there is space for a byte or ctx is done.
	// io.ErrClosedPipe: the process has closed its input.
	Write func(ctx context.Context, data []byte) (int, error)
	// End ends its input.
	End func() error
	// Resize sets the size of its terminal.
	Resize func(ctx context.Context, size nodeagent.Size)
}

// Run does the work of nodeagent.Runtime.Attach for a running process. ended is closed when the
// process has ended.
func Run(ctx context.Context, a nodeagent.Attachment, p Process, ended <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	c := &copying{Process: p, Attachment: a}
	defer c.stop()
	defer cancel()
	done := make(chan error, 1)
	if a.Stdin != nil {
		a.Taken(p.Taken)
		go func() { done <- c.run(ctx) }()
	}
	sizes := a.Resize
	for {
		select {
		case <-ended:
			return nil
		case err := <-done:
			return err
		case <-ctx.Done():
			return types.Errorf(types.Unavailable, "attach: %w", ctx.Err())
		case size, ok := <-sizes:
			if !ok {
				sizes = nil
				continue
			}
			p.Resize(ctx, size)
		}
	}
}

// copying copies an input.
type copying struct {
	Process
	nodeagent.Attachment
	// writing is held during a write: another call may write after this one.
	writing sync.Mutex
	stopped bool
}

// stop waits for a write, and prevents others. It does not wait for a read.
func (c *copying) stop() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.stopped = true
}

// run copies the input until it ends.
func (c *copying) run(ctx context.Context) error {
	buffer := make([]byte, chunk)
	for {
		n, err := c.Stdin.Read(buffer)
		for data := buffer[:n]; len(data) > 0; {
			written, err := c.write(ctx, data)
			data = data[written:]
			if err == io.ErrClosedPipe {
				return c.End()
			}
			if err != nil {
				return types.Errorf(types.Unavailable, "attach: %w", err)
			}
			c.Attachment.Taken(c.Process.Taken)
		}
		if ctx.Err() != nil {
			return types.Errorf(types.Unavailable, "attach: %w", ctx.Err()) // which is not the end of the input
		}
		if err != nil {
			return c.End()
		}
	}
}

// write gives the process some of the data.
func (c *copying) write(ctx context.Context, data []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.stopped {
		return 0, context.Canceled
	}
	n, err := c.Write(ctx, data)
	c.Process.Taken += int64(n)
	return n, err
}
