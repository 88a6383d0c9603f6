package parts

import (
	"fmt"
	"strings"
	"sync"
)

// quarantine counts stored values that cannot be read. Its methods may be called concurrently.
type quarantine struct {
	mu    sync.Mutex
	count int
	some  []string
}

func (q *quarantine) set(count int, some []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count, q.some = count, some
}

// warning describes them; empty if all values can be read.
func (q *quarantine) warning() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.count == 0:
		return ""
	case q.count > len(q.some):
		return fmt.Sprintf("%d values cannot be read and count as absent, such as %s: escher audit lists them", q.count, strings.Join(q.some, ", "))
	}
	return fmt.Sprintf("%s cannot be read and counts as absent: escher audit --repair KEY repairs it", strings.Join(q.some, ", "))
}
