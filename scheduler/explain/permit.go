package explain

import (
	"fmt"

	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// notPermitted: no node permits the rights of a spec, which its task requests as a resource. ok is
// false if rid is not such a resource.
func notPermitted(rid types.ResourceID, placed []candidate, where string) (r why.Reason, ok bool) {
	setting, ok := rid.Permit()
	if !ok {
		return r, false
	}
	reason := fmt.Sprintf("it asks for rights that %s%s does not permit", placed[0].node.Name, where)
	if len(placed) > 1 {
		reason = fmt.Sprintf("it asks for rights that none of %s permits", words.Count(len(placed), "node")+where)
	}
	return because(why.NotPermitted, reason, types.Textf("Ask for less, or start the agent of a node with %s.", setting)), true
}
