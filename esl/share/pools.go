package share

import (
	"cmp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// The pools of users: how much of each shared resource the tasks of a user may have.

// kind is that of the policy, in the names of its pools.
const kind = "fair-share"

// resourcesOf returns the names of the resources that are shared; none means cpu, memory and gpu.
func resourcesOf(over []string) []string {
	if len(over) == 0 {
		return []string{string(types.CPU), string(types.Memory), string(types.GPU)}
	}
	return over
}

// validShared checks the i-th name of a shared resource.
func validShared(over []string, i int) error {
	r, id := over[i], types.ResourceID(over[i])
	return cmp.Or(
		esl.InvalidIf(!types.IsPhysical(r) || id.IsPlacement() || id == types.Port || strings.HasPrefix(r, "port/"), "over[%d]: %q cannot be shared: use cpu, memory, disk, gpu, or a resource of a domain that nodes have", i, r),
		esl.InvalidIf(slices.Contains(over[:i], r), "over[%d]: %q is there twice: drop one", i, r),
	)
}

// checkPools checks the names of the pools of a user.
func checkPools(id, as string, over []string) error {
	for _, r := range over {
		if err := esl.CheckMade("of", as, sharePool(id, as, r)); err != nil {
			return err
		}
	}
	return nil
}

// sharePool returns the name of the pool that tasks of a user draw on, in the namespace of these tasks.
// name is that of the policy as their jobs write it.
func sharePool(name, as, resource string) string {
	return esl.OwnName(esl.OwnerOf(name), kind, strings.ReplaceAll(as, "/", ".")+"."+inName(name, resource))
}

// inName returns a resource as it is in the name of a pool of a policy. In another namespace it has no dots, so
// that the name tells the user.
func inName(policy, resource string) string {
	if strings.Contains(policy, ":") {
		return strings.NewReplacer("/", "_", ".", "_").Replace(resource)
	}
	return strings.ReplaceAll(resource, "/", ".")
}

// poolsOf returns what the names of the pools of a policy begin with, in a namespace whose jobs name it so.
func poolsOf(name string) string { return esl.OwnName(esl.OwnerOf(name), kind, "") + "." }

// Payer returns the user whose share of cpu, memory, disk or gpu a pool is; empty if the resource is no
// such pool.
func Payer(resource string) string {
	owner, path, ok := strings.Cut(resource, "."+kind+".")
	if i := strings.LastIndexByte(path, '.'); ok && i > 0 && (types.IsPhysical(path[i+1:]) || strings.Contains(owner, esl.Across)) {
		return path[strings.LastIndexByte(path[:i], '.')+1 : i]
	}
	return ""
}

// drawn is how much of a pool an amount of a resource draws. Pools of memory and disk count MiB,
// rounded up to a thousandth, to be readable.
func drawn(resource string, q types.Quantity) types.Quantity {
	if types.UnitOf(types.ResourceID(resource)) != types.Bytes {
		return q
	}
	const mi = 1 << 20
	return q/mi*1000 + (q%mi*1000+mi-1)/mi
}

// coverAll makes every task request as much from the pools of its user as from its node: what other policies
// add, too.
func coverAll(g *esl.Group, u esl.Use, over []string) {
	takes := make([]bool, len(g.Tasks))
	all := func() {
		for i := range g.Tasks {
			takes[i] = cover(u, &g.Tasks[i].Task, over) || takes[i]
		}
	}
	all()
	g.Finally(func() error {
		all()
		i := slices.Index(takes, false)
		return esl.InvalidIf(i >= 0, "tasks[%d].requests: it asks for nothing of %s, and would take no share: ask for some, or leave the fair-share out", i, strings.Join(over, ", "))
	})
}

// cover makes a task draw on the pools of its user, and reports whether it does.
func cover(u esl.Use, t *types.Task, over []string) bool {
	var any bool
	if t.Requests, any = covered(u, t.Requests, over); len(t.Alternatives) == 0 {
		return any
	}
	t.Alternatives = slices.Clone(t.Alternatives)
	each := true
	for i := range t.Alternatives {
		var one bool
		t.Alternatives[i].Requests, one = covered(u, t.Alternatives[i].Requests, over)
		each = each && one
	}
	return any || each
}

// covered returns requests with the amounts they draw on the pools.
func covered(u esl.Use, requests types.Requests, over []string) (types.Requests, bool) {
	more := make(map[string]types.Quantity)
	any := false
	for _, r := range over {
		pool := sharePool(u.Name, u.As, r)
		want, have := drawn(r, requests.Get(r)), requests.Get(pool)
		any = any || want > 0
		if want > have {
			more[pool] = want - have
		}
	}
	return requests.Plus(types.NewRequests(more)), any
}
