package room

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// What the tasks of a job that moves request, and which of it is open.

// The kind, in the names of what is made for a job, and the resources besides reservations.
const (
	kindMigrate = "migrate"

	migrateAnywhere = "anywhere"
	migrateBack     = "back"
	migrateBegun    = "begun"
)

// migrateTo are the slots of destinations, migrateFrom those of former places. There are two each:
// a task draws on its slot until it ends, and may have to move meanwhile.
func migrateTo() [2]string { return [2]string{"a", "b"} }

func migrateFrom() [2]string { return [2]string{"c", "d"} }

// homes gives each task alternatives: to draw on one of the reservations, or to run anywhere. asks reports
// whether tasks are asked to save before they move.
func homes(g *esl.Group, asks bool) error {
	if len(g.Reservations) > 0 {
		return esl.Invalid("policies: what another policy has locked does not move: drop migrate, or gang or elastic")
	}
	var errs []error
	gates := make([]types.Requests, len(g.Tasks))
	for i := range g.Tasks {
		t := &g.Tasks[i].Task
		gates[i], t.Requests = taskset.GatesAmong(t.Requests, g.ID)
		switch {
		case len(t.Alternatives) > 0 || len(t.Devices) > 0:
			errs = append(errs, esl.Invalid("tasks[%d]: it has alternatives, or asks for certain devices, and is to be moved: drop them, or migrate", i))
		case drawsOn(t.Requests) != "":
			errs = append(errs, esl.Invalid("tasks[%d].requests: %q is of a reservation, which does not move: ask for it without, or drop migrate", i, drawsOn(t.Requests)))
		case len(t.Requests) == 0:
			errs = append(errs, esl.Invalid("tasks[%d].requests: it asks for nothing, and no room can be reserved for it: give what it takes", i))
		case asks && tooLongToAsk(g.Tasks[i]):
			errs = append(errs, esl.Invalid("tasks[%d].name: %q, with the id %q, is too long, as the resources by which it is asked to save begin with its id: at most %d bytes are allowed, or %d of an id that is given; shorten it", i, t.Name, g.Tasks[i].ID, maxAskedName, maxAskedID))
		case i > 0 && !esl.Alike(t, &g.Tasks[0].Task):
			errs = append(errs, esl.Invalid("tasks[%d].requests: those that move ask for the same, and this one for something else than tasks[0], or it provides something: make a job of its own of it", i))
		}
	}
	if err := esl.Join(errs...); err != nil {
		return err
	}
	asked := g.Tasks[0].Task.Requests
	var ways []types.Alternative
	at := func(slot string) types.Requests {
		there := types.Task{Requests: asked}
		esl.DrawOn(&there, g.Own(slot), nil)
		return there.Requests
	}
	for _, slot := range migrateTo() {
		ways = append(ways, types.Alternative{Requests: at(slot)})
	}
	for _, slot := range migrateFrom() {
		ways = append(ways, types.Alternative{Requests: at(slot).Plus(types.Requests{{Name: g.Own(migrateBack), Amount: esl.One}})})
	}
	ways = append(ways, types.Alternative{Requests: asked.Plus(types.Requests{{Name: g.Own(migrateAnywhere), Amount: esl.One}})})
	for i := range g.Tasks {
		g.Tasks[i].Task.Requests, g.Tasks[i].Task.Alternatives = gates[i], slices.Clone(ways)
	}
	return nil
}

// drawsOn returns the first request that draws on a reservation, "" if there is none.
func drawsOn(requests types.Requests) string {
	for _, x := range requests {
		if strings.Contains(x.Name, "@") {
			return x.Name
		}
	}
	return ""
}

// askedOf returns the requests of a task, and those of its node.
func askedOf(s *esl.State, t *cluster.Task) (asked types.Requests, needs []cluster.Need) {
	asked = askedAnywhere(t.Info.V.Alternatives, s.Own(migrateAnywhere))
	return asked, s.View.Needs(s.Namespace, asked)
}

// askedAnywhere returns the requests of the alternative to run anywhere.
func askedAnywhere(ways []types.Alternative, anywhere string) (asked types.Requests) {
	for _, way := range ways {
		if way.Requests.Get(anywhere) == 0 {
			continue
		}
		for _, x := range way.Requests {
			if x.Name != anywhere {
				asked = append(asked, x)
			}
		}
	}
	return asked
}

// hasRoom reports whether the alternative to run anywhere fits on a node.
func hasRoom(s *esl.State, t *cluster.Task) bool {
	_, needs := askedOf(s, t)
	return slices.ContainsFunc(s.Rooms(), func(r *esl.Room) bool { return r.Fits(needs) })
}
