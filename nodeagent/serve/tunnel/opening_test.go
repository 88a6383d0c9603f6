package tunnel

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/types"
)

// TestNotAcknowledged: the streams that wait for an agent are bounded, also those that wait for long.
func TestNotAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		go io.Copy(io.Discard, here) //nolint:errcheck // it ends with the connection
		s, err := NewSession(there, func() {})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for round := range 4 {
			var group sync.WaitGroup
			var refused atomic.Int64
			for range maxOpening + 50 {
				group.Go(func() {
					began := time.Now()
					if _, err := s.Open(t.Context()); !types.Is(err, types.Unavailable) {
						t.Error(err)
					}
					if time.Since(began) == 0 {
						refused.Add(1)
					}
				})
			}
			group.Wait()
			if n := refused.Load(); n < 50 || round == 0 && n != 50 {
				t.Errorf("round %d: it refuses %d at once", round, n)
			}
			if n := s.opening.Load(); n > maxOpening {
				t.Errorf("round %d: it opens %d", round, n)
			}
			synctest.Wait()
		}
	})
}
