package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// printed is how many MiB the task prints; ESCHER_E2E_PRINT sets another number: 10240 is 10 GiB.
const printed = 256

// TestPrintsALot runs a task that prints as fast as it can. Its kept output is bounded, the agent
// needs little memory for it, and every line of its neighbor's output still arrives.
func TestPrintsALot(t *testing.T) {
	t.Parallel() // it mostly waits
	mebibytes := strconv.Itoa(printed)
	if text := os.Getenv("ESCHER_E2E_PRINT"); text != "" {
		mebibytes = text
	}
	c := started(t)
	neighbor := c.must("run", "-d", "--name", "neighbor", image, "--", "/bin/program", "chat")
	before := peakOf(t, c.cmd.Process.Pid)
	began := time.Now()
	loud := c.must("run", "-d", "--name", "loud", image, "--", "/bin/program", "flood", mebibytes)
	c.must("wait", "--timeout", "30m", loud)
	t.Logf("%s MiB were printed within %s", mebibytes, time.Since(began))
	if state := c.must("ps", "-a"); !strings.Contains(state, "succeeded") {
		t.Errorf("it did not succeed:\n%s", state)
	}
	const kept = 65 << 20 // two files of 32 MiB, and the excess of a last write
	var size int64
	// Not all of c.dir: containerd may still have the container's root mounted there.
	err := filepath.WalkDir(filepath.Join(c.dir, "agents"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.Contains(path, loud) {
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				size += info.Size()
			}
		}
		return nil // a file gone meanwhile is no error
	})
	if err != nil || size == 0 || size > kept {
		t.Errorf("%d bytes are kept of it, %v; want at most %d", size, err, kept)
	}
	if more := peakOf(t, c.cmd.Process.Pid) - before; more > 128<<20 {
		t.Errorf("it took %d MiB of memory", more>>20)
	}
	c.must("stop", neighbor)
	c.escher("wait", "--timeout", "1m", neighbor) // with the exit code of the task
	numbers, end := chatted(c.must("logs", neighbor) + "\n")
	for i := range numbers {
		if numbers[i] != i+1 {
			t.Fatalf("line %d is followed by line %d", i, numbers[i])
		}
	}
	if end == 0 || len(numbers) != end {
		t.Errorf("%d lines of its neighbor are there, and its end says %d", len(numbers), end)
	}
	t.Logf("%d MiB are kept, and %d lines of its neighbor", size>>20, len(numbers))
}
