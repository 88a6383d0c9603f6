package answer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// keepAlive is the interval of comments on a watch without changes.
	keepAlive = 15 * time.Second
	// slowest is how long a watcher may take to receive an event.
	slowest = 30 * time.Second
)

// Stream writes server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html.
type Stream struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	ctl   *http.ResponseController
	alive *time.Ticker
	ended chan struct{}
	done  sync.WaitGroup
}

// NewStream begins the answer.
func NewStream(w http.ResponseWriter) *Stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := &Stream{w: w, ctl: http.NewResponseController(w), alive: time.NewTicker(keepAlive), ended: make(chan struct{})}
	_ = s.write(": watching\n\n") // the next write fails if the client is gone
	s.done.Go(func() {
		for {
			select {
			case <-s.ended:
				return
			case <-s.alive.C:
				_ = s.write(": nothing new\n\n")
			}
		}
	})
	return s
}

// End ends what NewStream started.
func (s *Stream) End() {
	close(s.ended)
	s.alive.Stop()
	s.done.Wait()
}

// write writes and flushes. It fails if the watcher is too slow.
func (s *Stream) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.ctl.SetWriteDeadline(time.Now().Add(slowest)) // every connection of the socket has one
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.ctl.Flush()
}

// Send sends one event; an id of 0 means none. It fails if the watcher is gone, or too slow.
func (s *Stream) Send(event string, id int64, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	line := ""
	if id != 0 {
		line = fmt.Sprintf("id: %d\n", id)
	}
	return s.write(fmt.Sprintf("%sevent: %s\ndata: %s\n\n", line, event, text))
}
