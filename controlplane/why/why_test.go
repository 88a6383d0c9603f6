package why

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// TestMerge makes one sentence of reasons that differ only in numbers, the most frequent first.
func TestMerge(t *testing.T) {
	var all []Reason
	for i := range 12 {
		all = append(all, Say(Order, "queue %s lets %d begin in %s; %d are before it", "q-1", 4, time.Duration(21-i)*time.Second, 3+i))
	}
	all = append(all, Say(Awaits, "It comes after %s.", "a-1"), Say(Awaits, "It comes after %s.", "a-2"), Say(Awaits, "It comes after %s.", "a-2"),
		Say(Budget, "%v is free", types.Quantity(500)), Say(Budget, "%v is free", types.Quantity(1500)), Reason{Summary: "100% is used"},
		Say(Place, "%d fit", 1).And("; %d wait", 2), Say(Place, "%d fit", 1).And("; %d wait", 5), Say(Place, "%d fit", 1).And("; %d wait", 3))
	want := []Merged{
		{12, "queue q-1 lets 4 begin in 10s to 21s; 3 to 14 are before it"}, {3, "1 fit; 2 to 5 wait"}, {2, "It comes after a-2."}, {2, "0.5 is free"}, {1, "It comes after a-1."}, {1, "100% is used"},
	}
	got := Merge(all)
	want[3].Summary = fmt.Sprintf("%v to %v is free", types.Quantity(500), types.Quantity(1500))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestVoice: lines and encoding have actions in the words of the program that asks.
func TestVoice(t *testing.T) {
	stop := types.Textf("To end it now: %s", action.Stop.Of("a"))
	e := Explanation{Kind: KindTask, ID: "t", Reason: Reason{Cause: InUse, Summary: "It waits.", Suggestion: stop}, Notes: []types.Text{stop},
		Vectors: []Vector{{Reason: Reason{Suggestion: stop}}}, Groups: []Group{{Reason: Reason{Suggestion: stop}}}}
	voice := func(a action.Action) string { return "press the button of " + a.Args[0] }
	for name, text := range map[string]string{"lines": strings.Join(e.Lines(true, voice)[:3], "\n"), "JSON": encoded(t, e.In(voice))} {
		if strings.Contains(text, "stop a") || strings.Count(text, "press the button of a") < 2 {
			t.Errorf("%s: %s", name, text)
		}
	}
	if text := encoded(t, e); strings.Count(text, "To end it now: stop a") != 4 {
		t.Errorf("it changed what it was made of: %s", text)
	}
}

func encoded(t *testing.T, e Explanation) string {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
