package nodeapi

import (
	"bytes"
	"io"
	"sync"
)

// input is the input that a client has sent and the process has not read yet.
type input struct {
	// taken is called with the number of bytes read: as many may be sent again.
	taken func(n int)

	mu     sync.Mutex
	change *sync.Cond
	data   bytes.Buffer
	ended  bool
}

func newInput() *input {
	in := &input{taken: func(int) {}}
	in.change = sync.NewCond(&in.mu)
	return in
}

// put adds data. It reports whether the data was within the credit.
func (in *input) put(data []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.data.Len()+len(data) > execCredit {
		return false
	}
	if !in.ended {
		in.data.Write(data)
		in.change.Broadcast()
	}
	return true
}

// end marks the end of the input: after the buffered data or, if now is set, at once.
func (in *input) end(now bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	if now {
		in.data.Reset()
	}
	in.change.Broadcast()
}

// Read waits for data.
func (in *input) Read(p []byte) (int, error) {
	in.mu.Lock()
	for in.data.Len() == 0 && !in.ended {
		in.change.Wait()
	}
	n, _ := in.data.Read(p)
	in.mu.Unlock()
	if n == 0 {
		return 0, io.EOF
	}
	in.taken(n)
	return n, nil
}

// credit is how much input a client may send.
type credit struct {
	mu     sync.Mutex
	change *sync.Cond
	left   int
	closed bool
}

func newCredit() *credit {
	c := &credit{left: execCredit}
	c.change = sync.NewCond(&c.mu)
	return c
}

// take waits for credit, and takes up to most of it; 0 means that nothing more can be sent.
func (c *credit) take(most int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left == 0 && !c.closed {
		c.change.Wait()
	}
	if c.closed {
		return 0
	}
	n := min(most, c.left)
	c.left -= n
	return n
}

// give adds credit.
func (c *credit) give(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left += n
	c.change.Broadcast()
}

// close ends all waits.
func (c *credit) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.change.Broadcast()
}
