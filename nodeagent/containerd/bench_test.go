package containerd_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/escher-sched/escher/nodeagent/runtimetest"
	"github.com/escher-sched/escher/nodeagent/tasklog"
)

// testFloor compares, in pairs, what it takes to start and to remove a container with
// what containerd's own client takes for the same one. What it finds is in its log;
// it fails only when that is far off, as other tests run meanwhile.
func testFloor(b *bench) {
	const pairs, far = 5, 2
	var start, remove, rawStart, rawRemove []time.Duration
	for i := range pairs {
		c := b.container("exit", "0")
		start = append(start, took(func() { b.start(c) }))
		b.wait(c.ID)
		record, err := b.raw().ContainerService().Get(b.Context(), c.ID)
		b.must(err)
		var spec specs.Spec
		b.must(typeurl.UnmarshalTo(record.Spec, &spec))
		remove = append(remove, took(func() { b.must(b.Remove(b.Context(), c.ID)) }))
		begun, removed := b.rawPair(fmt.Sprintf("raw-%d", i), &spec)
		rawStart, rawRemove = append(rawStart, begun), append(rawRemove, removed)
	}
	if r := ratio(start, rawStart); r > far {
		b.Errorf("to start a container takes %.2f times as long as with containerd's client, want less than %d", r, far)
	}
	b.Logf("start %s, containerd's client %s: %.2f times as long", median(start), median(rawStart), ratio(start, rawStart))
	b.Logf("remove %s, containerd's client %s: %.2f times as long", median(remove), median(rawRemove), ratio(remove, rawRemove))
}

// rawPair starts a container with containerd's client, and removes it.
func (b *bench) rawPair(id string, spec *specs.Spec) (start, remove time.Duration) {
	b.Helper()
	raw, ctx := b.raw(), b.Context()
	spec.Linux.CgroupsPath = filepath.Join("/", b.host.Namespace, id)
	log := tasklog.Config{Path: filepath.Join(b.TempDir(), id)}
	var made client.Container
	var task client.Task
	start = took(func() {
		img, err := raw.GetImage(ctx, runtimetest.Image)
		b.must(err)
		made, err = raw.NewContainer(ctx, id, client.WithNewSnapshot(id, img), client.WithSpec(spec))
		b.must(err)
		task, err = made.NewTask(ctx, cio.BinaryIO(b.host.Program, map[string]string{runtimetest.LogVerb: log.Arg()}))
		b.must(err)
		b.must(task.Start(ctx))
	})
	ended, err := task.Wait(ctx)
	b.must(err)
	<-ended
	remove = took(func() {
		_, err := task.Delete(ctx)
		b.must(err)
		b.must(made.Delete(ctx, client.WithSnapshotCleanup))
	})
	return start, remove
}

func took(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

func median(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}

// ratio is the median of the pairs'.
func ratio(all, floor []time.Duration) float64 {
	pairs := make([]float64, 0, len(all))
	for i := range all {
		pairs = append(pairs, float64(all[i])/float64(floor[i]))
	}
	slices.Sort(pairs)
	return pairs[len(pairs)/2]
}
