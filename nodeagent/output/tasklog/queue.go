package tasklog

import (
	"errors"
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
)

const (
	// queueBytes limits the output that waits to be written, of both streams together.
	queueBytes = 1 << 20
	// stallWait is how long output waits for a disk that makes no progress. Then the queue drops
	// output that does not fit, until the disk makes progress. A slow disk slows a task down, and
	// loses no output.
	stallWait = time.Second
	// endWait limits the time to write the last output.
	endWait = time.Minute
)

// errStalled is why output is lost when a disk hangs.
var errStalled = errors.New("the disk of the log did not answer")

// part is output that is written at once.
type part struct {
	lost int64 // bytes dropped before it
	text []byte
	// marks are for the text, in order. The writer knows their offsets.
	marks []mark
}

// add appends a piece. It extends the last mark if the piece belongs to it.
func (p *part) add(s Stream, at time.Time, text []byte) {
	if len(text) == 0 {
		return
	}
	p.text = append(p.text, text...)
	now := at.UnixNano()
	if n := len(p.marks); n > 0 {
		last := &p.marks[n-1]
		if last.stream == s && now >= last.at && now-last.at < int64(sameTime) {
			last.length += int64(len(text))
			return
		}
	}
	p.marks = append(p.marks, mark{length: int64(len(text)), at: now, stream: s})
}

// queue is between the readers of output and its writer, so that a container does not wait for a
// hanging disk. It uses memory only for waiting output.
type queue struct {
	mu    sync.Mutex
	more  *sync.Cond // there is a part, or the end
	parts []part
	bytes int   // of all parts, including the one being written
	lost  int64 // dropped since the last part
	ended bool
	// writing reports whether a part is being written.
	writing bool
	// stalled reports whether a reader waited for stallWait while nothing was written.
	stalled bool
	// moved is closed when something has been written; nil means no waiter.
	moved chan struct{}
	// spare is the memory of a written part.
	spare part
	// done is closed when everything is written.
	done chan struct{}
}

// newQueue returns a queue and starts its writer. The caller must call end.
func newQueue(w *writer) *queue {
	q := &queue{done: make(chan struct{})}
	q.more = sync.NewCond(&q.mu)
	w.progress = q.progress
	go func() {
		defer close(q.done)
		defer w.close()
		for {
			p, ok := q.take()
			if !ok {
				return
			}
			w.drop(p.lost, errStalled)
			w.write(p)
			q.wrote(p)
		}
	}()
	return q
}

// put adds a copy of text, which was read just now. It waits for space while the disk makes progress. Otherwise it counts
// the text as lost.
func (q *queue) put(s Stream, text []byte) {
	at := time.Now()
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
		q.parts[n-1].add(s, at, text)
		return
	}
	p := part{lost: q.lost, text: q.spare.text, marks: q.spare.marks}
	p.add(s, at, text)
	q.parts = append(q.parts, p)
	q.lost, q.spare = 0, part{}
	q.more.Signal()
}

// await waits until something has been written or the disk counts as stalled. The caller holds mu.
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

// take returns the next part, and at the end the last dropped bytes; false means no more.
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

// wrote frees the space of a part.
func (q *queue) wrote(p part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= len(p.text)
	q.spare = part{text: p.text[:0], marks: p.marks[:0]}
	q.writing = false
	q.progressLocked()
}

// progress reports that the disk has written something.
func (q *queue) progress() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.progressLocked()
}

// progressLocked wakes the readers that wait. The caller holds mu.
func (q *queue) progressLocked() {
	q.stalled = false
	if q.moved != nil {
		close(q.moved)
		q.moved = nil
	}
}

// begin waits until the log exists or the disk counts as stalled. text is the first output.
func (q *queue) begin(text string) {
	q.put(Note, []byte(text))
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.writing || len(q.parts) > 0 {
		q.await()
	}
}

// end waits until everything is written, or for endWait.
func (q *queue) end() {
	q.mu.Lock()
	q.ended = true
	q.more.Signal()
	q.mu.Unlock()
	bounded.Wait(q.done, endWait)
}
