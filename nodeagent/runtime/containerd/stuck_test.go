package containerd_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

// freeze freezes all containers of the host until thaw is called. With v1, a frozen process cannot
// end, like one that hangs in the kernel; with v2 it can.
func (b *bench) freeze() (thaw func()) {
	b.Helper()
	path, frozen, thawed := filepath.Join(cgroup.DefaultRoot, "freezer", b.Cgroups().Parent(), "freezer.state"), "FROZEN", "THAWED"
	if cgroup.Unified(cgroup.DefaultRoot) {
		path, frozen, thawed = filepath.Join(cgroup.DefaultRoot, b.Cgroups().Parent(), "cgroup.freeze"), "1", "0"
	}
	set := func(state string) {
		if err := os.WriteFile(path, []byte(state), 0); err != nil {
			b.Error(err)
		}
	}
	thaw = sync.OnceFunc(func() { set(thawed) })
	b.Cleanup(thaw)
	set(frozen)
	return thaw
}

// testShimKilledOfStuck tests that a process which cannot be killed is not known to have ended, and
// that calls report this soon.
func testShimKilledOfStuck(b *bench) {
	c := b.container("block")
	b.start(c)
	thaw := b.freeze()
	b.kill(b.shim(c.ID))
	if !cgroup.Unified(cgroup.DefaultRoot) {
		// containerd needs a moment to notice the end of the shim.
		runtimetest.Await(b.T, func(ctx context.Context) (struct{}, error) {
			_, err := b.Wait(ctx, c.ID)
			b.must(ctx.Err()) // no call uses all of its time
			b.wants(err, types.Unavailable)
			if strings.Contains(err.Error(), "are left") {
				err = nil
			}
			return struct{}{}, err
		})
		b.running(c.ID)
	}
	thaw()
	exit := runtimetest.Await(b.T, func(ctx context.Context) (nodeagent.Exit, error) { return b.Wait(ctx, c.ID) })
	if exit.Code != 137 {
		b.Errorf("exit %+v, want that of what was killed", exit)
	}
	b.must(b.Remove(b.Context(), c.ID))
	// containerd has given up the removal of its own state.
	b.must(containerd.EndForgotten(b.ctx(), b.host.Address, b.host.Namespace))
}

// testExecIsStuck kills a process that cannot end, and returns soon. Its rest is removed once it
// ends.
func testExecIsStuck(b *bench) {
	c := b.container("block")
	b.start(c)
	ctx, cancel := context.WithCancel(b.ctx())
	defer cancel()
	thaw := func() {}
	_, err := b.Exec(ctx, c.ID, nodeagent.Process{
		Command: []string{runtimetest.Program, "deaf"},
		Stdout:  canceller(func() { thaw = b.freeze(); cancel() }),
	})
	b.wants(err, types.Unavailable)
	thaw()
	runtimetest.Await(b.T, func(context.Context) (struct{}, error) {
		left, err := filepath.Glob(filepath.Join(b.host.Dir, "fifo", "*"))
		if err == nil && len(left) > 0 {
			err = types.Errorf(types.Unavailable, "pipes are left: %v", left)
		}
		return struct{}{}, err
	})
	b.nothingOf(c)
}
