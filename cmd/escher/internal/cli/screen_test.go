package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/events"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/run"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/show"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestScreenCutsLines: no line is longer than the terminal is wide, with any colors.
func TestScreenCutsLines(t *testing.T) {
	var out strings.Builder
	s := &cmdutil.Screen{To: &out, Size: func() (int, int) { return 8, 10 }}
	s.Draw([]string{"12345678", "123456789", "1234\x1b[32m56789\x1b[0m", "äöüß…äöüß"})
	if want := cmdutil.ScreenBegin + cmdutil.EraseDown + "12345678\n12345678\n1234\x1b[32m5678\x1b[0m\näöüß…äöü\n"; out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

// TestNeedsOfAlternatives lists requests that are only in alternatives, too.
func TestNeedsOfAlternatives(t *testing.T) {
	way := func(name string) types.Alternative {
		return types.Alternative{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 300, name: 1000})}
	}
	for _, c := range []struct {
		task types.Task
		want string
	}{
		{types.Task{}, ""},
		{types.Task{Alternatives: []types.Alternative{way("a")}}, "a=1,cpu=0.3"},
		{types.Task{Alternatives: []types.Alternative{way("a"), way("b"), way("c"), way("d")}}, "a=1,cpu=0.3 or b=1,cpu=0.3 or 2 more"},
		{types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000}), Alternatives: []types.Alternative{way("a")}}, "cpu=1; a=1,cpu=0.3"},
	} {
		if got := show.NewTaskRow(controlplane.TaskState{Task: &c.task}, time.Now()).Needs(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// waiting is the part of the task API that a task needs to wait for another.
type waiting struct{ cmdutil.Tasks }

func (waiting) Wait(context.Context, controlplane.Until, ...string) (map[string]types.Status, error) {
	return nil, nil
}

// TestFollowInsideATask says that the output is not shown there.
func TestFollowInsideATask(t *testing.T) {
	var said strings.Builder
	f := &cmdutil.Factory{Outside: cmdutil.Outside{Err: &said, Getenv: func(string) string { return "" }}}
	if _, err := run.Follow(f, context.Background(), waiting{}, []string{"a-1", "a-2"}); err != nil {
		t.Fatal(err)
	}
	if want := "escher: waiting for the end of a-1, a-2: its output is not shown inside a task, but by escher logs outside\n"; said.String() != want {
		t.Errorf("%q, want %q", &said, want)
	}
}

// TestEventOfALoss: a task that waits again shows the time at which its attempt ended.
func TestEventOfALoss(t *testing.T) {
	ended := time.Unix(1000, 0)
	row := events.StatusRow("a-1", types.Status{Phase: types.Pending, Attempt: 1, Node: "n1", Ended: ended.UnixNano(), Reason: "node n1 was lost"})
	if !row.Time.Equal(ended) || row.Event != "waits again: node n1 was lost" {
		t.Errorf("%+v", row)
	}
}
