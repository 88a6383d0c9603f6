package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestSubmissionThatIsSlowedSaysSo reports the delay once, and goes on when fewer tasks wait.
func TestSubmissionThatIsSlowedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, 0, func(w *watched) {
			w.put(controlplane.AdmissionKey(), &types.Admission{Reason: "7 tasks wait, and at most 7 may", Busy: true})
		}, "run", "--detach", "busybox", "true")
		want := "escher: submission is slowed: 7 tasks wait, and at most 7 may: it goes on when there are fewer\n"
		if got := w.printed(); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		if got := w.printed(); got != "" {
			t.Errorf("it says %q", got)
		}
		w.commit(controlplane.Op{Key: controlplane.AdmissionKey(), Delete: true})
		time.Sleep(5 * time.Second)
		if got := w.printed(); !strings.HasPrefix(got, "task-") {
			t.Errorf("it says %q, want the id of the task", got)
		}
		if code := <-w.ended; code != 0 {
			t.Errorf("it ended with %d", code)
		}
	})
}
