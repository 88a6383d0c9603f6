package execlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/fence/execlog"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

func config(dir string) execlog.Config {
	return execlog.Config{Dir: dir, BootClock: func() time.Duration { return time.Hour }, BootID: "boot"}
}

func open(t *testing.T, cfg execlog.Config) *execlog.Log {
	t.Helper()
	l, err := execlog.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func record(i int) execution.Record {
	return execution.Record{Container: fmt.Sprintf("c-%d", i), Node: "n1", Namespace: "d", Task: fmt.Sprintf("t-%d", i), Attempt: 1, Revision: 7}
}

// read returns the records of the log, as "event container", and the number of bad lines.
func read(t *testing.T, dir string) (events []string, bad int) {
	t.Helper()
	bad, err := execution.ReadFile(filepath.Join(dir, execution.Name), func(r execution.Record) {
		events = append(events, string(r.Event)+" "+r.Container)
		if r.At == 0 || r.Boot != time.Hour || r.BootID != "boot" && r.Reason != "the machine was started again" {
			t.Errorf("noted without the time: %+v", r)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return events, bad
}

func TestNotedBeforeItReturns(t *testing.T) {
	dir := t.TempDir()
	l := open(t, config(dir))
	const n = 50
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := l.Start(t.Context(), record(i)); err != nil {
				t.Error(err)
			}
			events, _ := read(t, dir)
			if !strings.Contains(strings.Join(events, "\n")+"\n", fmt.Sprintf("start c-%d\n", i)) {
				t.Errorf("the start of %d is not noted: %q", i, events)
			}
			if err := l.End(t.Context(), record(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if left := l.Running(); len(left) > 0 {
		t.Errorf("as if %v ran", left)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if events, bad := read(t, dir); len(events) != 2*n || bad != 0 {
		t.Errorf("%d records, %d bad lines", len(events), bad)
	}
}

// TestWhatRunsIsRemembered tests that the next log knows which executions run in this boot.
func TestWhatRunsIsRemembered(t *testing.T) {
	cfg := config(t.TempDir())
	l := open(t, cfg)
	for i := range 3 {
		if err := l.Start(t.Context(), record(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.End(t.Context(), record(1)); err != nil {
		t.Fatal(err)
	}
	if err := l.End(t.Context(), record(9)); err != nil {
		t.Fatal(err)
	}
	killed := record(2)
	killed.Event = execution.Kill
	killed.Stamp(time.Now(), time.Hour, "boot")
	if err := execlog.Append(cfg.Dir, killed); err != nil {
		t.Fatal(err)
	}
	again := open(t, cfg)
	if left := again.Running(); len(left) != 1 || left[0].Container != "c-0" {
		t.Errorf("%v run, want c-0", left)
	}
	cfg.BootID = "another"
	if left := open(t, cfg).Running(); len(left) != 0 {
		t.Errorf("%v run, since before the machine was started", left)
	}
	if events, _ := read(t, cfg.Dir); len(events) != 6 || events[5] != "end c-0" {
		t.Errorf("%q: of what ran, and only of that, an end is to be noted with the new boot", events)
	}
	if left := open(t, cfg).Running(); len(left) != 0 {
		t.Errorf("%v run", left)
	}
	if events, _ := read(t, cfg.Dir); len(events) != 6 {
		t.Errorf("%q: noted twice", events)
	}
}

func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	l := open(t, config(dir))
	for i := range 2 {
		if err := l.Start(t.Context(), record(i)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, execution.Name)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-20); err != nil {
		t.Fatal(err)
	}
	l = open(t, config(dir))
	if err := l.Start(t.Context(), record(2)); err != nil {
		t.Fatal(err)
	}
	if events, bad := read(t, dir); fmt.Sprint(events) != "[start c-0 start c-2]" || bad != 1 {
		t.Errorf("%q, %d bad lines", events, bad)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "t-2", "t-3", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if events, bad := read(t, dir); len(events) != 1 || bad != 2 {
		t.Errorf("%q, %d bad lines: a changed line passes", events, bad)
	}
}

// TestPutAside tests that the log stays below twice its maximum size, and keeps running executions.
func TestPutAside(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.MaxBytes = 4 << 10
	l := open(t, cfg)
	if err := l.Start(t.Context(), record(1000)); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := l.Start(t.Context(), record(i)); err != nil {
			t.Fatal(err)
		}
		if err := l.End(t.Context(), record(i)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(cfg.Dir, execution.Name)
	for _, name := range []string{path, execution.Previous(path)} {
		if info, err := os.Stat(name); err != nil || info.Size() > 5<<10 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if events, bad := read(t, cfg.Dir); len(events) > 60 || bad != 0 || events[len(events)-1] != "end c-99" {
		t.Errorf("%q, %d bad lines", events, bad)
	}
	if left := open(t, cfg).Running(); len(left) != 1 || left[0].Container != "c-1000" {
		t.Errorf("%v run, want c-1000", left)
	}
}

// TestFullDisk tests that no execution starts that cannot be logged, and that started ones can end.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	l := open(t, config(dir))
	const n = 20
	for i := range n {
		if err := l.Start(t.Context(), record(i)); err != nil {
			t.Fatal(err)
		}
	}
	// Other files cannot use the reserved space.
	_ = os.WriteFile(filepath.Join(dir, "other"), make([]byte, 1<<20), 0o600)
	refused := 0
	for i := n; i < 2000 && refused == 0; i++ {
		if err := l.Start(t.Context(), record(i)); types.Is(err, types.Unavailable) {
			refused = i
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Fatal("everything can be noted on a disk that is full")
	}
	for i := range refused {
		if err := l.End(t.Context(), record(i)); err != nil {
			t.Fatalf("the end of %d, of %d: %v", i, refused, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(t.Context(), record(refused)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
