package nodeagent

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// outlasting returns the containers that outlive the previous session, and the revision of the
// node's cordon, on which the next session depends. If the machine was declared dead while it ran,
// no container outlives the session. Then outlasting ends all containers and returns Unavailable
// until a scheduler has given up the kept bindings: their tasks may run elsewhere.
func (a *Agent) outlasting(ctx context.Context) (kept []string, cordon int64, err error) {
	page, err := a.cfg.Store.List(ctx, controlplane.ListOptions{Key: controlplane.CordonKey(a.cfg.Node)})
	if err != nil {
		return nil, 0, err
	}
	var c types.Cordon
	if len(page.KVs) > 0 {
		if !controlplane.Read(page.KVs[0], &c) {
			c = types.Cordon{}
		}
		cordon = page.KVs[0].ModRevision
	}
	if kept, err = a.keptBindings(ctx); err != nil || !c.Dead || len(kept) == 0 {
		return kept, cordon, err
	}
	if err := a.clear(ctx, nil); err != nil {
		return nil, 0, err
	}
	return nil, 0, types.Errorf(types.Unavailable, "begin session: node %s was declared dead, and a server has not yet given up %s kept there: try again in a moment", a.cfg.Node, words.Count(len(kept), "task"))
}
