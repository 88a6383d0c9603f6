package file

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// TestReplacing reads the flags of an update, and prints them as they were given.
func TestReplacing(t *testing.T) {
	for _, x := range []struct {
		args string
		want manifest.Update
		says string
	}{
		{args: ""},
		{args: " --replace"},
		{args: " --replace --at-once 3", want: manifest.Update{AtOnce: 3}},
		{
			args: " --replace --at-once 1 --order start-first --healthy 1m30s",
			want: manifest.Update{AtOnce: 1, Order: manifest.StartFirst, Healthy: types.Duration(90 * time.Second)},
		},
		{args: " --at-once 3", says: "at-once: says how tasks are replaced, and without --replace none is: add --replace"},
		{args: " --healthy 3s", says: "healthy: says how tasks are replaced"},
		{args: " --replace --at-once 0", says: "at-once: 0 is out of range: give 1 to"},
		{args: " --replace --at-once -1", says: "at-once: -1 is out of range"},
		{args: " --replace --order first", says: `order: "first" is unknown: use stop-first or start-first`},
		{args: " --replace --order=", says: `order: "" is unknown`},
		{args: " --replace --healthy 0s", says: "healthy: 0s is out of range: give more than 0s and at most"},
		{args: " --replace --healthy 99999h", says: "healthy: 99999h0m0s is out of range"},
	} {
		cmd, opts := new(cobra.Command), new(apply.Options)
		r := addReplacing(cmd, opts)
		if err := cmd.ParseFlags(strings.Fields(x.args)); err != nil {
			t.Fatal(err)
		}
		got, err := r.update()
		switch {
		case x.says != "":
			if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), x.says) {
				t.Errorf("%s: %v", x.args, err)
			}
		case err != nil || got != x.want || r.String() != x.args:
			t.Errorf("%s: %+v, %v, printed as %q", x.args, got, err, r)
		}
	}
}

// TestChangeRow says in one tense what is or was done.
func TestChangeRow(t *testing.T) {
	inPlace := &apply.InPlace{Replaces: []string{"a", "b"}, AtOnce: 2, Order: manifest.StopFirst, Adds: "4-5", Removes: []string{"c", "d"}}
	for _, x := range []struct {
		change     apply.Change
		cells      string
		afterwards string
	}{
		{change: apply.Change{Kind: manifest.KindTask, Name: "web", Action: apply.Launch, Tasks: 1}, cells: "task/web|launch||1|", afterwards: "task/web|launched||1|"},
		{
			change: apply.Change{Kind: manifest.KindJob, Name: "j", Action: apply.Replace, Stops: []string{"j-1", "j-2"}, Differences: []string{"count"}},
			cells:  "job/j|replace|||stops j-1,j-2; count", afterwards: "job/j|replaced|||stopped j-1,j-2; count",
		},
		{
			change: apply.Change{Kind: manifest.KindJob, Name: "j", Action: apply.Update, InPlace: inPlace, Note: "hidden"},
			cells:  "job/j|update|||replaces 2 tasks, 2 at once, stop-first, adds index 4-5, removes c,d", afterwards: "job/j|updated|||replaced 2 tasks, 2 at once, stop-first, added index 4-5, removed c,d",
		},
		{
			change: apply.Change{Kind: manifest.KindJob, Name: "j", Action: apply.Update, InPlace: new(apply.InPlace)},
			cells:  "job/j|update|||finishes an update", afterwards: "job/j|updated|||finished an update",
		},
	} {
		for done, want := range map[bool]string{false: x.cells, true: x.afterwards} {
			if got := strings.Join(changeRow{Change: x.change, done: done}.Row(), "|"); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
}
