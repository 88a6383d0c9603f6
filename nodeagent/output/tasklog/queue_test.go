package tasklog

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowDisk is a file that waits before it writes.
type slowDisk struct {
	file
	wait func()
}

func (f slowDisk) Write(p []byte) (int, error) {
	f.wait()
	return f.file.Write(p)
}

// onDisk returns a writer to such a file.
func onDisk(path string, wait func()) *writer {
	w := newWriter(Config{Path: path, MaxBytes: DefaultMaxBytes})
	w.open = func(path string) (opened, error) {
		o, err := openAppend(path)
		o.file, o.marks = slowDisk{o.file, wait}, slowDisk{o.marks, wait}
		return o, err
	}
	return w
}

// lines returns n bytes.
func lines(n int) string { return strings.Repeat("a line of sixteen\n"[2:], n/16) }

// TestHungDiskHoldsUpNobody tests that output is read while the disk hangs, for good or until it
// answers again. Then the log reports the loss.
func TestHungDiskHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		var hung sync.WaitGroup
		hung.Add(1)
		q := newQueue(onDisk(path, hung.Wait))
		from := time.Now()
		q.begin("")
		const all = 3 * queueBytes
		drain(q, Stdout, strings.NewReader(lines(all/2)))
		drain(q, Stdout, strings.NewReader(lines(all/2)))
		if took := time.Since(from); took > 2*stallWait {
			t.Errorf("the task had to wait %v", took)
		}
		from = time.Now()
		q.end()
		if took := time.Since(from); took != endWait {
			t.Errorf("waited %v for a disk that hangs, want %v", took, endWait)
		}
		hung.Done()
		<-q.done
		note := fmt.Sprintf("\nescher: %d bytes of output lost: %v\n", all-queueBytes, errStalled)
		if got := logged(t, path); got != lines(queueBytes)+note {
			t.Errorf("log has %d bytes and ends in %q, want %d and %q", len(got), got[max(0, len(got)-100):], queueBytes+len(note), note)
		}
	})
}

// TestDiskAnswersAgain tests that output after a hang follows the report of the loss.
func TestDiskAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		var hung sync.WaitGroup
		hung.Add(1)
		q := newQueue(onDisk(path, hung.Wait))
		drain(q, Stdout, strings.NewReader(lines(queueBytes)+"lost"))
		hung.Done()
		synctest.Wait()
		drain(q, Stdout, strings.NewReader("kept\n"))
		q.end()
		want := lines(queueBytes) + fmt.Sprintf("\nescher: 4 bytes of output lost: %v\nkept\n", errStalled)
		if got := logged(t, path); got != want {
			t.Errorf("log has %d bytes and ends in %q", len(got), got[max(0, len(got)-100):])
		}
	})
}

// TestSlowDiskLosesNothing tests that output waits while the disk makes progress, also at the end.
func TestSlowDiskLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		var ready pipeEnd
		w := onDisk(path, func() { time.Sleep(stallWait - time.Millisecond) })
		text := lines(3 * queueBytes)
		if err := copyTo(w, strings.NewReader(text), strings.NewReader(""), &ready); err != nil {
			t.Fatal(err)
		}
		if got := logged(t, path); got != text {
			t.Errorf("log has %d bytes of %d, and ends in %q", len(got), len(text), got[max(0, len(got)-100):])
		}
	})
}

// TestStartsOnAHungDisk tests that a container starts even if its log cannot be opened.
func TestStartsOnAHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		var hung sync.WaitGroup
		hung.Add(1)
		w := newWriter(Config{Path: path, MaxBytes: DefaultMaxBytes, Again: true})
		w.open = func(path string) (opened, error) {
			hung.Wait()
			return openAppend(path)
		}
		var ready pipeEnd
		var copied sync.WaitGroup
		copied.Go(func() {
			if err := copyTo(w, strings.NewReader("out\n"), strings.NewReader(""), &ready); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(2 * stallWait)
		synctest.Wait()
		if !ready.closed {
			t.Error("the shim waits for the logger")
		}
		hung.Done()
		copied.Wait()
		if got := logged(t, path); got != againNote+"out\n" {
			t.Errorf("log is %q", got)
		}
	})
}
