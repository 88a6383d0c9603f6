package esl

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Lock reserves all requests of the tasks under an id, all or nothing, and makes the tasks draw on
// the reservation. It has one bundle for each task, or for each unit of tasks that share a node.
// Call it after every policy has added its requests: see Lastly. Invalid: a request cannot be
// reserved.
//
// After a long wait the reservation accumulates capacity as it becomes free. Its bundles move when
// their node is lost.
func (g *Group) Lock(id string, each int) (types.Reservation, error) {
	if err := g.lockable(); err != nil {
		return types.Reservation{}, err
	}
	members := make([]*types.Task, len(g.Tasks))
	for i := range g.Tasks {
		members[i] = &g.Tasks[i].Task
	}
	if err := g.fewEnough(each, g.distinguish()); err != nil {
		return types.Reservation{}, err
	}
	provided := provides(members)
	var before types.Requests
	for i, t := range members {
		asked := t.Requests
		if i > 0 && len(t.Devices) == 0 && slices.Equal(asked, before) {
			t.Requests = members[i-1].Requests // the common case
		} else {
			DrawOn(t, id, provided)
		}
		before = asked
	}
	r, err := Relock(members, id, each)
	if err == nil {
		g.Reserve(id, r)
	}
	return r, err
}

// distinguish makes tasks with different requests also request a mark of their kind, so that no
// task draws on the bundle of another kind. It returns the number of marks.
func (g *Group) distinguish() int {
	if !slices.ContainsFunc(g.Tasks, func(s controlplane.Submission) bool { return !Alike(&s.Task, &g.Tasks[0].Task) }) {
		return 0
	}
	marks := make(map[string]string)
	kind := func(i int) string { return fmt.Sprint(g.Tasks[i].Task.Requests, g.Tasks[i].Task.Devices) }
	for i := range g.Tasks {
		if marks[kind(i)] == "" {
			marks[kind(i)] = g.Own(fmt.Sprint("kind", len(marks)))
		}
	}
	if len(marks) == 1 {
		return 0
	}
	for i := range g.Tasks {
		g.Ask(i, marks[kind(i)], One)
	}
	for _, mark := range slices.Sorted(maps.Values(marks)) {
		g.Make(mark, types.Inf, controlplane.OnEvery())
	}
	return len(marks)
}

// Alike reports whether two tasks request the same amounts, neither requests particular devices,
// and neither provides a resource.
func Alike(a, b *types.Task) bool {
	return slices.Equal(a.Requests, b.Requests) && len(a.Devices)+len(b.Devices)+len(a.Provides)+len(b.Provides) == 0
}

// provides returns the names of resources that tasks provide: no reservation can hold them before.
func provides(members []*types.Task) map[string]bool {
	names := make(map[string]bool)
	for _, t := range members {
		for _, x := range t.Provides {
			names[x.Name] = true
		}
	}
	return names
}

// DrawOn makes a task draw on a reservation.
func DrawOn(t *types.Task, id string, provided map[string]bool) {
	amounts := make(map[string]types.Quantity, len(t.Requests))
	for _, x := range t.Requests {
		if !types.ResourceID(x.Name).IsPlacement() && !provided[x.Name] {
			x.Name += "@" + id
		}
		amounts[x.Name] = x.Amount
	}
	t.Requests, t.Devices = types.NewRequests(amounts), slices.Clone(t.Devices)
	for i := range t.Devices {
		t.Devices[i].Resource += "@" + id
	}
}

// Relock returns the reservation with an id as Lock makes it, for the given tasks, which already
// draw on it.
func Relock(tasks []*types.Task, id string, each int) (types.Reservation, error) {
	r := types.Reservation{Accumulate: true, Lost: types.MoveBundles, Session: tasks[0].Session}
	var before *types.Task
	for unit := range slices.Chunk(tasks, each) {
		if t := unit[0]; each == 1 && before != nil && Alike(t, before) {
			r.Priority = max(r.Priority, t.Priority)
			r.Bundles = append(r.Bundles, r.Bundles[len(r.Bundles)-1])
			continue
		}
		before = unit[0]
		b := types.Bundle{}
		var devices []types.DeviceRequest
		provided := provides(unit)
		for _, t := range unit {
			r.Priority = max(r.Priority, t.Priority)
			if len(devices) > 0 && len(t.Devices) > 0 && !reflect.DeepEqual(devices, t.Devices) {
				return r, Invalid("devices: those together on a node ask for different ones: have them ask for the same")
			}
			if len(t.Devices) > 0 {
				devices = t.Devices
			}
			for _, x := range t.Requests {
				name, scoped := strings.CutSuffix(x.Name, "@"+id)
				switch {
				case scoped || types.ResourceID(name).IsPlacement():
					b.Requests = b.Requests.Plus(types.Requests{{Name: name, Amount: x.Amount}})
				case !provided[name]:
					return r, Invalid("%s: some ask for it, and it comes with others that have their place: have all on one node, or drop it", name)
				}
			}
		}
		if gpu := b.Requests.Get("gpu"); len(unit) > 1 && gpu > One && gpu%One != 0 {
			return r, Invalid("gpu: those together on a node ask for %s, and each part is of one device: have it be whole ones", gpu.Format("gpu"))
		}
		for _, d := range devices {
			d.Resource = strings.TrimSuffix(d.Resource, "@"+id)
			b.Devices = append(b.Devices, d)
		}
		r.Bundles = append(r.Bundles, b)
	}
	return r, nil
}
