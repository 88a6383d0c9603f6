package tasklog

import (
	"errors"
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
)

const (
	// queueBytes is how much may wait to be written, of both streams together.
	queueBytes = 1 << 20
	// stallWait is how long output waits for a disk that does nothing: then what does not
	// fit is dropped until it does something again. A disk that is slow makes a task slow,
	// and costs it nothing of its output.
	stallWait = time.Second
	// endWait is how long a disk may take for the last of the output.
	endWait = time.Minute
)

// errStalled is why output is lost when a disk hangs.
var errStalled = errors.New("the disk of the log did not answer")

// part is what is written at once.
type part struct {
	lost int64 // how much was dropped before it
	text []byte
}

// queue lies between those that read output and the one that writes it, so that a container
// does not wait for a disk that hangs. It takes memory only for what waits.
type queue struct {
	mu    sync.Mutex
	more  *sync.Cond // there is a part, or the end
	parts []part
	bytes int   // of all parts, and of the one that is being written
	lost  int64 // dropped since the last part
	ended bool
	// writing tells that a part is being written.
	writing bool
	// stalled tells that nothing was written for stallWait while somebody waited.
	stalled bool
	// moved is closed when a part has been written; nil when nobody waits for it.
	moved chan struct{}
	// spare is the memory of a part that was written.
	spare []byte
	// done is closed when all is written.
	done chan struct{}
}

// newQueue returns a queue, and begins to write what it gets. The caller calls end.
func newQueue(w *writer) *queue {
	q := &queue{done: make(chan struct{})}
	q.more = sync.NewCond(&q.mu)
	go func() {
		defer close(q.done)
		defer w.close()
		for {
			p, ok := q.take()
			if !ok {
				return
			}
			w.drop(p.lost, errStalled)
			w.write(p.text)
			q.wrote(p)
		}
	}()
	return q
}

// put adds a copy of text. It waits for room as long as the disk does something; else the
// text is counted as lost.
func (q *queue) put(text []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.bytes+len(text) > queueBytes && !q.stalled {
		q.await()
	}
	if q.bytes+len(text) > queueBytes {
		q.lost += int64(len(text))
		return
	}
	q.bytes += len(text)
	if n := len(q.parts); n > 0 && q.lost == 0 && len(q.parts[n-1].text)+len(text) <= chunkBytes {
		q.parts[n-1].text = append(q.parts[n-1].text, text...)
		return
	}
	q.parts = append(q.parts, part{lost: q.lost, text: append(q.spare, text...)})
	q.lost, q.spare = 0, nil
	q.more.Signal()
}

// await returns when a part has been written, or it is clear that the disk hangs. The
// caller holds mu.
func (q *queue) await() {
	if q.moved == nil {
		q.moved = make(chan struct{})
	}
	moved := q.moved
	q.mu.Unlock()
	bounded.Wait(moved, stallWait)
	q.mu.Lock()
	if q.moved == moved {
		q.stalled = true
	}
}

// take returns the next part, at the end what was dropped last; false when there is no more.
func (q *queue) take() (part, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.parts) == 0 && !q.ended {
		q.more.Wait()
	}
	if len(q.parts) == 0 {
		p := part{lost: q.lost}
		q.lost = 0
		return p, p.lost > 0
	}
	p := q.parts[0]
	q.parts[0] = part{}
	q.parts = q.parts[1:]
	q.writing = true
	return p, true
}

// wrote makes room where a part was.
func (q *queue) wrote(p part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= len(p.text)
	q.spare = p.text[:0]
	q.stalled, q.writing = false, false
	if q.moved != nil {
		close(q.moved)
		q.moved = nil
	}
}

// begin returns when there is a log, or it is clear that the disk hangs; text is what the log
// is to begin with.
func (q *queue) begin(text string) {
	q.put([]byte(text))
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.writing || len(q.parts) > 0 {
		q.await()
	}
}

// end returns when all is written, or the disk hangs.
func (q *queue) end() {
	q.mu.Lock()
	q.ended = true
	q.more.Signal()
	q.mu.Unlock()
	bounded.Wait(q.done, endWait)
}
