package execlog

import (
	"os"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

// TestCloseOnADiskThatHangs tests that Close does not wait forever.
func TestCloseOnADiskThatHangs(t *testing.T) {
	l, err := Open(Config{Dir: t.TempDir(), BootClock: func() time.Duration { return 1 }, BootID: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write(make([]byte, 64<<10)); err != nil { // the capacity of the pipe
		t.Fatal(err)
	}
	disk := l.file
	l.file = in
	noted := make(chan error, 1)
	go func() { noted <- l.note(t.Context(), execution.Record{Event: execution.End, Container: "a"}) }()
	for began := time.Now(); ; <-time.After(time.Millisecond) {
		l.mu.Lock()
		writing := l.idle != nil
		l.mu.Unlock()
		if writing {
			break
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatal("no program writes")
		}
	}
	if err := l.Close(); !types.Is(err, types.Unavailable) {
		t.Errorf("%v, want %s", err, types.Unavailable)
	}
	_ = out.Close() // The disk is gone: the write fails.
	if err := <-noted; err == nil {
		t.Error("noted nowhere")
	}
	_, _ = in.Close(), disk.Close()
}
