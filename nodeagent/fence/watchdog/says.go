package watchdog

import (
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/bounded"
)

// says is what a watchdog says. It is written by a goroutine of its own, as that waits for
// the disk: while the disk hangs, the rest is dropped. What is said again and again is
// written once a minute.
type says struct {
	lines chan string
	done  chan struct{}

	mu     sync.Mutex
	closed bool
	// said is when each line was written last.
	said map[string]time.Time
}

const (
	// sayAgain is when a line is written again.
	sayAgain = time.Minute
	// saidMost is how many lines are remembered.
	saidMost = 100
)

func newSays(to *log.Logger) *says {
	const waiting = 64
	s := &says{lines: make(chan string, waiting), done: make(chan struct{}), said: make(map[string]time.Time)}
	go func() {
		defer close(s.done)
		for line := range s.lines {
			to.Print(line)
		}
	}()
	return s
}

func (s *says) Print(err error) { s.Printf("%v", err) }

func (s *says) Printf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.said[line]; s.closed || ok && time.Since(at) < sayAgain {
		return
	}
	select {
	case s.lines <- line:
		if len(s.said) >= saidMost {
			clear(s.said)
		}
		s.said[line] = time.Now()
	default:
	}
}

// close returns when everything is written, or when that takes too long.
func (s *says) close() {
	s.mu.Lock()
	s.closed = true
	close(s.lines)
	s.mu.Unlock()
	waitFor(s.done)
}

// waitFor waits for what waits for the disk, a while.
func waitFor(done <-chan struct{}) {
	const patience = 5 * time.Second
	bounded.Wait(done, patience)
}
