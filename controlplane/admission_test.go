package controlplane_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// busy returns the admission of a cluster in which too many tasks wait.
func busy() *types.Admission { return &types.Admission{Reason: "7 tasks wait", Busy: true} }

// noticing gives w a client that records its notices.
func (w *world) noticing() *[]string {
	w.t.Helper()
	var told []string
	c, err := controlplane.New(w.lossy, "team", controlplane.WithNotice(func(reason string) { told = append(told, reason) }))
	if err != nil {
		w.t.Fatal(err)
	}
	w.Client = c
	return &told
}

func TestLaunchWaitsWhileTooManyTasksWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		told := w.noticing()
		w.put(controlplane.AdmissionKey(), busy())
		done := make(chan error)
		go func() {
			_, err := w.Launch(t.Context(), one("web-1"))
			if err == nil {
				err = w.Reserve(t.Context(), "train", bundles(1))
			}
			done <- err
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []string{"7 tasks wait"}; !slices.Equal(*told, want) {
			t.Errorf("it is told %q, want %q", *told, want)
		}
		if w.get(controlplane.TaskKey("team", "web-1"), new(types.Task)) {
			t.Error("it did not wait")
		}
		w.delete(controlplane.AdmissionKey())
		before := time.Now()
		if err := <-done; err != nil || time.Since(before) > 5*time.Second {
			t.Errorf("after %s: %v", time.Since(before), err)
		}
		if n := w.writes(controlplane.TaskKey("team", "web-1")); n != 1 {
			t.Errorf("the task was written %d times", n)
		}
	})
}

func TestLaunchThatWaitsGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(controlplane.AdmissionKey(), busy())
		w.refused(types.Unavailable, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := w.Launch(ctx, one("web-1"))
			return err
		}, "7 tasks wait", "submit it later", "deadline exceeded")
		// Now admission is closed for another reason.
		ended := make(chan error)
		go func() {
			_, err := w.Launch(t.Context(), one("web-1"))
			ended <- err
		}()
		synctest.Wait()
		w.put(controlplane.AdmissionKey(), &types.Admission{Reason: "the database is 71 % full"})
		if err := <-ended; !types.Is(err, types.Precondition) {
			t.Errorf("got %v, want Precondition", err)
		}
	})
}

// A launch that has begun ignores waiting tasks, which may be its own.
func TestLaunchInPartsGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		says *types.Admission
		want types.Class
	}{
		"while too many wait":      {busy(), 0},
		"but not when it is full":  {&types.Admission{Reason: "full"}, types.Precondition},
		"nothing comes in between": {nil, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 32, Bytes: 1 << 20}))
			told := w.noticing()
			w.lossy.before = func(n int) {
				if n == 2 && c.says != nil {
					w.put(controlplane.AdmissionKey(), c.says)
				}
				if n == 4 && c.says != nil {
					w.delete(controlplane.AdmissionKey())
				}
			}
			_, err := w.LaunchJob(t.Context(), controlplane.Job{Name: "sweep", Tasks: several(100)})
			tasks, _, listErr := w.Tasks(t.Context())
			if listErr != nil {
				t.Fatal(listErr)
			}
			if len(*told) > 0 {
				t.Errorf("%s: told %q", name, *told)
			}
			switch {
			case c.want != 0 && (!types.Is(err, c.want) || len(tasks) > 0):
				t.Errorf("%s: %v, and %d tasks are left", name, err, len(tasks))
			case c.want == 0 && (err != nil || len(tasks) != 100):
				t.Errorf("%s: %v, and there are %d tasks", name, err, len(tasks))
			}
		})
	}
}
