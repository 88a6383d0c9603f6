package gang

import (
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
)

// longestSleep bounds the time between two looks for a domain, if nothing changes.
const longestSleep = 10 * time.Minute

// seek notes that a node matters on which a member of the waiting gang fits. One answer holds for all gangs
// of equal requests in the same domain: where the first one does not fit, or need not move, none does.
func (p Gang) seek(s *esl.State, r *cluster.Reservation, now string) {
	var wants [][]cluster.Need
	texts := []string{string(p.In), now}
	last := ""
	for _, needs := range taskset.NeedsOf(s.View, s.Namespace, r.Info.V) {
		text := taskset.Signature(taskset.PhysicalNeeds(needs))
		if texts = append(texts, text); text == last {
			continue
		}
		last = text
		taskset.NoteNeeds(s, s.Job, needs)
		wants = append(wants, taskset.PhysicalNeeds(needs))
	}
	s.Seek(esl.Seeking{
		Like: strings.Join(texts, ";"), Order: r.Info.V.Order(), Since: r.Info.V.Submitted, Alike: true,
		Take: func(on *match.Room) bool { return slices.ContainsFunc(wants, on.Fits) },
	})
}
