//go:build linux

package watchdog

import (
	"errors"
	"log"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a disk that hangs until it is released.
type slow struct {
	hangs chan struct{}
	mu    sync.Mutex
	text  strings.Builder
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.hangs
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// TestSaysOnADiskThatHangs tests that a log call returns, and that a repeated line is written once.
func TestSaysOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slow{hangs: make(chan struct{})}
		s := newSays(log.New(disk, "", 0))
		for i := range 1000 {
			s.Printf("same")
			s.Printf("line %d", i)
		}
		began := time.Now()
		if s.Print(errors.New("last")); time.Since(began) > 0 {
			t.Error("it waits for the disk")
		}
		close(disk.hangs)
		synctest.Wait()
		time.Sleep(sayAgain)
		s.Printf("same")
		s.close()
		s.Printf("too late")
		text := disk.text.String()
		if n := strings.Count(text, "same\n"); n < 2 || n > 3 || strings.Count(text, "line 1\n") != 1 || strings.Contains(text, "late") {
			t.Errorf("said: %s", text)
		}
	})
}

// TestReadsOnADiskThatHangs tests that the last content counts.
func TestReadsOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), SessionFile)
		hangs := make(chan struct{})
		var c cached[int]
		n := 0
		read := func(string) (int, error) { n++; return n, nil }
		hung := func(string) (int, error) { <-hangs; return 100, nil }
		for _, step := range []struct {
			text string
			read func(string) (int, error)
			want int
			wait time.Duration
		}{
			{"", read, 0, 0}, {"a", read, 1, 0}, {"a", read, 1, 0}, {"ab", hung, 1, readWait}, {"abc", hung, 1, 0},
		} {
			if step.text != "" {
				if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			if got := c.get(path, step.read); got != step.want || time.Since(began) != step.wait {
				t.Errorf("%q: %d after %s, want %d after %s", step.text, got, time.Since(began), step.want, step.wait)
			}
		}
		close(hangs)
		synctest.Wait()
		if got := c.get(path, read); got != 2 {
			t.Errorf("it hangs no more: %d", got)
		}
	})
}
