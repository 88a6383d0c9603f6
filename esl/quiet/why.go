package quiet

import (
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl/taskset"
)

// why says what a task waits for.
func (w *world) why(task string) why.Reason {
	t, ok := taskset.Waits(w.s, task)
	if !ok {
		return why.Reason{}
	}
	k := w.kindOf(t)
	q := &queue{kind: k}
	if w.queues[k] != nil {
		q = w.queues[k]
	}
	set := taskset.OfTasks(w.s, q.tasks, w.s.Own(""))
	var loud []string
	trying := ""
	for _, o := range w.options(q, w.s.Rooms(), nil, set) {
		switch {
		case o.site.open[k] && o.fits:
			return why.Reason{}
		case !o.fits:
		case o.admitted:
			return why.Say(why.Place, "quiet: node %s is about to be opened for it", o.site.node.Name)
		case o.trying:
			trying = o.site.node.Name
		default:
			loud = append(loud, fmt.Sprintf("%s (%s: %.0f %%)", o.site.node.Name, o.by, 100*o.worst))
		}
	}
	from, marked := w.timeOf(since + k)
	then := "it takes the least bad one by now"
	if due := from.Add(w.wait); marked && w.s.Now.Before(due) {
		then = "it takes the least bad one in " + why.InWords(due.Sub(w.s.Now).Round(time.Second))
	}
	switch {
	case trying != "":
		return why.Say(why.Place, "quiet: it is not known yet how kind %s goes with those on %s; that is being tried; %s", k, trying, then)
	case len(loud) == 0:
		return why.Reason{} // no node has room for it
	}
	return why.Say(why.Place, "quiet: no node with room is quiet for kind %s; what tasks lose there: %s; %s", k, strings.Join(loud[:min(len(loud), 4)], ", "), then)
}
