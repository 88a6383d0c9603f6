package show

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// portsAsked is the most tasks whose ports are read for a list, and portsAtOnce how many of them at
// once.
const (
	portsAsked  = 1000
	portsAtOnce = 16
)

// hasPorts reports whether the task holds ports of its node, its own or those of a reservation.
func (t *TaskRow) hasPorts() bool {
	return t.Phase.Held() && slices.ContainsFunc(t.Requests, func(r types.Request) bool {
		name, _, _ := strings.Cut(r.Name, "@")
		_, fixed := types.ResourceID(name).FixedPort()
		return fixed || name == string(types.Port)
	})
}

// addPorts adds the ports of tasks that have a node, by name. It leaves out what it cannot find out
// soon.
func addPorts(ctx context.Context, client *controlplane.Client, rows []TaskRow) {
	ctx, cancel := context.WithTimeout(ctx, askedFor)
	defer cancel()
	specs := make(map[string]*types.Spec)
	var group errgroup.Group
	group.SetLimit(portsAtOnce)
	defer func() { _ = group.Wait() }() // no function returns an error
	asked := 0
	for i := range rows {
		row := &rows[i]
		if !row.hasPorts() || asked == portsAsked {
			continue
		}
		asked++
		spec, known := specs[row.spec]
		if !known {
			spec, _ = client.Spec(ctx, row.spec) // nil: the ports stay unknown
			specs[row.spec] = spec
		}
		if spec == nil {
			continue
		}
		group.Go(func() error {
			row.Ports, _ = cmdutil.PortsOf(ctx, client, spec, row.Node, row.ID, row.Attempt)
			return nil
		})
	}
}
