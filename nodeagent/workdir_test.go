package nodeagent_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/nodeagent/runtime/workdir"
	"github.com/escher-sched/escher/types"
)

// packed returns the image of a new directory, and its archive.
func packed(t *testing.T) (image string, archive []byte) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := workdir.Scan(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	img, err := tree.Image(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := img.Write(t.Context(), &out, img.Digests()); err != nil {
		t.Fatal(err)
	}
	return img.Name, out.Bytes()
}

// TestFetchesWorkdir tests that tasks whose workdir is on another node get it once, and wait for it.
func TestFetchesWorkdir(t *testing.T) {
	image, archive := packed(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, simruntime.Config{})
		var fetched, failed atomic.Int64
		b.cfg.FetchWorkdir = func(ctx context.Context, name string) error {
			time.Sleep(10 * time.Second)
			if failed.Add(1) == 1 {
				return types.Errorf(types.Unavailable, "the node is silent")
			}
			fetched.Add(1)
			if name != image {
				t.Errorf("fetches %s, want %s", name, image)
			}
			_, err := b.runtime.Load(ctx, bytes.NewReader(archive))
			return err
		}
		b.start()
		defer b.crash()
		with := b.runs(func(s *types.Spec) { s.Workdir = &types.Workdir{Image: image, Target: "/workdir"} })
		for _, id := range []string{"x", "y", "z"} {
			b.bind(id, with)
		}
		b.bind("other")
		b.pass(5 * time.Second)
		b.alive(1) // It does not wait for them.
		b.pass(time.Minute)
		b.alive(4)
		if n := fetched.Load(); n != 1 {
			t.Errorf("fetched %d times, want once", n)
		}
		if steps := b.steps("x"); !strings.HasPrefix(steps, "bound starting pulling trouble") || !strings.HasSuffix(steps, "pulled started") {
			t.Errorf("steps %s, want one trouble and the fetch", steps)
		}
	})
}

// TestWorkdirOfNoNode tests the exit code of a task whose workdir is gone.
func TestWorkdirOfNoNode(t *testing.T) {
	for name, fetch := range map[string]func(context.Context, string) error{
		"no other node":  nil,
		"none of others": func(context.Context, string) error { return types.Errorf(types.NotFound, "no node has it") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, simruntime.Config{})
				b.cfg.FetchWorkdir = fetch
				b.start()
				defer b.crash()
				b.bind("a", b.runs(func(s *types.Spec) {
					s.Workdir = &types.Workdir{Image: types.UnsentWorkdir, Target: "/workdir"}
				}))
				b.pass(time.Second)
				if r := b.expect("a", types.ReportExited); r.ExitCode != 127 || !strings.Contains(r.Reason, "submit the task again from its directory") {
					t.Errorf("%+v, want 127 with a remedy", r)
				}
			})
		})
	}
}
