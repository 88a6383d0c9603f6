package e2e

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	nodeimage "github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/types/execution"
)

const (
	// underFire is how long processes are killed; ESCHER_E2E_FIRE is another duration.
	underFire = 12 * time.Second
	// leastRounds is the least number of rounds, however slow the machine is.
	leastRounds = 8
	// atWork is the number of concurrent tasks.
	atWork = 50
	// lastingTasks of them run until they are stopped.
	lastingTasks = 15
)

// recovery is tasks on a node whose processes are killed, with their expected outcomes.
type recovery struct {
	*victim
	random *rand.Rand
	// lasting run until they are stopped. restarted are restarted up to three times unless they
	// succeed. All others end by themselves, once.
	lasting, restarted, accepted map[string]bool
	// stopped are those of lasting that were told to stop; they end some time later.
	stopped map[string]bool
	// shot are the tasks with a killed shim.
	shot map[string]bool
	// others are the processes of foreign containers, by container.
	others map[string]uint32
}

// TestRecovery kills agent, containerd and shims at any moment under fifty tasks. None runs twice,
// none is lost, and each ends with its own code, or with the note that its end is unknown. Nothing
// of them is left, and everything foreign is unchanged.
func TestRecovery(t *testing.T) {
	t.Parallel() // it mostly waits
	seed := uint64(11)
	lasts := underFire
	if text := os.Getenv("ESCHER_E2E_FIRE"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	r := &recovery{
		victim: newVictim(t), random: rand.New(rand.NewPCG(seed, seed)),
		lasting: make(map[string]bool), restarted: make(map[string]bool), accepted: make(map[string]bool), stopped: make(map[string]bool), shot: make(map[string]bool),
	}
	end := r.audited()
	defer end()
	r.submit("lasting", r.lasting, lastingTasks, nil, "1h", "1h")
	r.must(append([]string{"wait", "--until", "running"}, slices.Collect(maps.Keys(r.lasting))...)...)
	r.strangers()
	rounds := 0
	for begin := time.Now(); (time.Since(begin) < lasts || rounds < leastRounds) && !t.Failed(); rounds++ {
		r.work()
		r.pause(600)
		r.strike()
		r.pause(800)
		r.comeBack()
	}
	orphan := r.orphan()
	r.start()
	r.settle()
	t.Logf("%d rounds, %d tasks, the shims of %d killed", rounds, len(r.accepted), len(r.shot))
	r.judge()
	// The node's execution log agrees.
	if o := r.escher("audit", "--exec-log", filepath.Join(r.dir, "n1", execution.Name)); o.code != 0 {
		t.Errorf("the log of executions: %+v", o)
	}
	r.nothingLeft(orphan)
}

func (r *recovery) pause(most int) { after(time.Duration(r.random.IntN(most)) * time.Millisecond) }

// submit submits tasks, all or none. While everything is killed it may fail, without effect.
func (r *recovery) submit(name string, into map[string]bool, count int, options []string, least, most string) {
	r.t.Helper()
	args := append([]string{"run", "-d", "--name", name, "--count", fmt.Sprint(count), "-v", r.data + ":/data"}, options...)
	args = append(args, image, "--", "/bin/program", "mark", "/data", least, most)
	for _, id := range strings.Fields(r.must(args...)) {
		into[id], r.accepted[id] = true, true
	}
}

// work keeps enough tasks running.
func (r *recovery) work() {
	r.t.Helper()
	active := 0
	all := r.tasks()
	for _, x := range all {
		if x.Phase == "running" || x.Phase == "bound" || x.Phase == "pending" {
			active++
		}
	}
	if n := atWork - active; n > 0 {
		r.submit("short", make(map[string]bool), n/2+1, nil, "10ms", "5s")
		r.submit("again", r.restarted, n/4+1, []string{"--restart", "on-failure:3", "--restart-delay", "100ms"}, "10ms", "1s")
	}
	// A stop is a moment, too.
	for id := range r.lasting {
		if x := all[id]; x.Phase == "running" && r.random.IntN(20) == 0 {
			r.must("stop", "--grace", "2s", id)
			r.stopped[id] = true
		}
	}
}

// strike kills one or several of the processes.
func (r *recovery) strike() {
	what := r.random.IntN(7) + 1
	if what&4 != 0 {
		r.shoot()
	}
	if what&2 != 0 {
		r.killDaemon()
	}
	if what&1 != 0 {
		r.killAgent()
	}
}

// shoot kills the shim of a random task.
func (r *recovery) shoot() {
	shims := r.shims()
	maps.DeleteFunc(shims, func(id string, _ int) bool { return !r.accepted[taskOf(id)] })
	if len(shims) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(shims))
	id := ids[r.random.IntN(len(ids))]
	r.shot[taskOf(id)] = true
	_ = syscall.Kill(shims[id], syscall.SIGKILL) // it may just have ended
}

// comeBack restarts the agent if there is none, and sometimes kills it during its start.
func (r *recovery) comeBack() {
	r.t.Helper()
	for r.agent == nil {
		if r.random.IntN(3) > 0 {
			r.start()
			return
		}
		r.launch()
		r.pause(1000)
		r.killAgent()
		if r.random.IntN(2) == 0 {
			r.killDaemon()
		}
	}
}

// strangers starts two foreign containers: one in its own containerd namespace, one among Escher's.
func (r *recovery) strangers() {
	r.t.Helper()
	c, own := r.containerd()
	r.others = make(map[string]uint32)
	// The name is of this run: another one may have been killed, and have left its containers.
	for _, ns := range []string{"stranger-" + filepath.Base(r.dir), own} {
		ctx := namespaces.WithNamespace(r.t.Context(), ns)
		name := "escher.local/stranger:1"
		var archive bytes.Buffer
		if err := nodeimage.Write(&archive, nodeimage.Spec{Name: name, Files: map[string]string{"/bin/program": built.program}}); err != nil {
			r.t.Fatal(err)
		}
		if _, err := c.Import(ctx, &archive); err != nil {
			r.t.Fatal(err)
		}
		img, err := c.GetImage(ctx, name)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := img.Unpack(ctx, ""); err != nil {
			r.t.Fatal(err)
		}
		id := "stranger-in-" + ns
		made, err := c.NewContainer(ctx, id, client.WithNewSnapshot(id, img),
			client.WithNewSpec(oci.WithImageConfig(img), oci.WithProcessArgs("/bin/program", "work", "1h")))
		if err != nil {
			r.t.Fatal(err)
		}
		task, err := made.NewTask(ctx, cio.NullIO)
		if err == nil {
			err = task.Start(ctx)
		}
		if err != nil {
			r.t.Fatal(err)
		}
		r.others[id] = task.Pid()
		r.t.Cleanup(func() {
			ctx := namespaces.WithNamespace(context.Background(), ns)
			if _, err := task.Delete(ctx, client.WithProcessKill); err != nil {
				r.t.Error(err)
			}
			_ = containerd.DropCgroups(ns) // a cgroup that others use stays
		})
	}
}

// orphan kills the agent and leaves a container of the node without a binding.
func (r *recovery) orphan() string {
	r.t.Helper()
	// The last strike may have killed containerd, which only the agent restarts.
	_, own := r.containerd()
	r.killAgent()
	// escher-CLUSTER-HASH
	cluster := own[len("escher-"):strings.LastIndex(own, "-")]
	rt, err := containerd.New(containerd.Config{
		Address: r.address(), Namespace: own, Cluster: cluster, Node: "n1",
		Logger: containerd.Logger{Path: built.escher, Subcommand: "task-log"},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = rt.Close() }() // it is done
	at := nodeagent.Attempt{Cluster: cluster, Node: "n1", Namespace: "default", Task: "orphan", Number: 1, Revision: 1}
	id := nodeagent.ContainerID(at)
	var problem error
	if !eventually(func() bool {
		_, problem = rt.Start(r.t.Context(), nodeagent.Container{ID: id, Attempt: at, Image: image, Command: []string{"/bin/program", "work", "1h"}})
		return problem == nil
	}) {
		r.t.Fatal(problem)
	}
	return id
}

// settle stops the lasting tasks and waits for the end of all.
func (r *recovery) settle() {
	r.t.Helper()
	// Tasks lost with their shim run again first.
	lasts := slices.DeleteFunc(slices.Collect(maps.Keys(r.lasting)), func(id string) bool { return r.stopped[id] })
	if len(lasts) > 0 { // a long run has stopped all of them
		r.must(append([]string{"wait", "--until", "running", "--timeout", "2m"}, lasts...)...)
	}
	for _, id := range lasts {
		r.must("stop", "--grace", "5s", id)
	}
	o := r.escher(append([]string{"wait", "--timeout", "2m"}, slices.Collect(maps.Keys(r.accepted))...)...)
	for id, x := range r.tasks() {
		if x.Phase == "running" || x.Phase == "bound" || x.Phase == "pending" {
			r.t.Errorf("%s does not end: %+v\n%s\n%s", id, x, o.err, r.about(id))
		}
	}
}

// judge compares the status of each task with the notes of its processes.
func (r *recovery) judge() {
	r.t.Helper()
	all := r.tasks()
	if len(all) != len(r.accepted) {
		r.t.Errorf("%d tasks were accepted, %d are there", len(r.accepted), len(all))
	}
	for _, id := range slices.Sorted(maps.Keys(r.accepted)) {
		text, _ := os.ReadFile(filepath.Join(r.data, id)) // a task whose start was hit may have none
		if wrong := r.wrong(all[id], string(text)); wrong != "" {
			r.t.Errorf("%s: %s: %+v, it noted %q, its shim was killed: %v\n%s", id, wrong, all[id], text, r.shot[id], r.about(id))
		}
	}
}

// wrong says what is wrong with the end of a task, by the notes of its processes.
func (r *recovery) wrong(x task, noted string) string {
	began, ended := strings.Count(noted, "began"), strings.Count(noted, "ended")
	lost := strings.Contains(x.Reason, "not known how")
	// Starts that ended with containerd, at an unknown point.
	cut := strings.Count(r.about(x.ID), "while it was being started")
	code := codeOf(x.ID)
	switch {
	case x.Attempt != 1 && !r.shot[x.ID] && cut == 0:
		return "it was run again as another attempt"
	case strings.Contains(noted, "twice"):
		return "two of its processes ran at once"
	case lost && !r.shot[x.ID] && cut == 0:
		return "its end is said to be unknown, and its shim was not killed"
	case r.lasting[x.ID]:
		if began > x.Attempt || began == 0 && cut == 0 || !lost && (x.Phase != "cancelled" || x.ExitCode != 143 || !strings.Contains(noted, "stopped")) {
			return "it was to run until it was stopped"
		}
		return ""
	case !lost && x.ExitCode != code:
		return fmt.Sprintf("its code is %d", code)
	}
	most := 1
	if r.restarted[x.ID] && code != 0 {
		most = 4
	}
	if began > most*x.Attempt || !r.shot[x.ID] && (began < most-cut || ended != began) {
		return fmt.Sprintf("it was to run %d times", most)
	}
	return ""
}

// codeOf is the exit code of a task that runs mark.
func codeOf(task string) int {
	h := fnv.New32a()
	fmt.Fprint(h, task)
	return int(h.Sum32() % 100)
}

// nothingLeft checks that only the logs of the tasks are left, and that the strangers are
// unchanged.
func (r *recovery) nothingLeft(orphan string) {
	r.t.Helper()
	c, own := r.containerd()
	ctx := namespaces.WithNamespace(r.t.Context(), own)
	var left []string
	if !eventually(func() bool {
		left = append(r.leftIn(ctx, c, own), r.leftOutside(own)...)
		return len(left) == 0
	}) {
		r.t.Errorf("left:\n%s", strings.Join(left, "\n"))
		for _, what := range left {
			r.t.Log(r.about(strings.TrimPrefix(filepath.Base(what), ".")))
		}
	}
	if pids := withCommand("-id " + orphan); len(pids) > 0 {
		r.t.Errorf("processes without a binding run on: %v", pids)
	}
	for id, pid := range r.others {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); string(text) != "/bin/program\x00work\x001h\x00" {
			r.t.Errorf("%s, which is none of ours, runs no more", id)
		}
	}
}

// leftIn lists containerd's remains of tasks.
func (r *recovery) leftIn(ctx context.Context, c *client.Client, own string) []string {
	var left []string
	stranger := "stranger-in-" + own
	records, err := c.ContainerService().List(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, x := range records {
		if x.ID != stranger {
			left = append(left, "container "+x.ID)
		}
	}
	err = c.SnapshotService("").Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		if info.Kind == snapshots.KindActive && info.Name != stranger {
			left = append(left, "file system "+info.Name)
		}
		return nil
	})
	if err != nil {
		return []string{err.Error()}
	}
	leases, err := c.LeasesService().List(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, l := range leases {
		// The remains of a crash disappear by themselves, soon.
		if end, err := time.Parse(time.RFC3339, l.Labels["containerd.io/gc.expire"]); err != nil || time.Until(end) > 15*time.Minute {
			left = append(left, fmt.Sprintf("lease %+v", l))
		}
	}
	return left
}

// leftOutside lists the machine's remains of tasks.
func (r *recovery) leftOutside(own string) []string {
	var left []string
	stranger := "stranger-in-" + own
	for id := range r.shims() {
		if r.others[id] == 0 {
			left = append(left, "shim "+id)
		}
	}
	for _, pid := range withCommand("task-log") {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(text), r.dir) {
			left = append(left, "logger "+string(text))
		}
	}
	for _, pattern := range []string{
		filepath.Join(r.dir, "n1/containerd/state/io.containerd.runtime.v2.task", own, "*"),
		filepath.Join("/run/containerd/runc", own, "*"),
		filepath.Join("/sys/fs/cgroup/*", own, "*-*"), filepath.Join("/sys/fs/cgroup", own, "*-*"),
		filepath.Join(r.dir, "n1/scratch/*"),
	} {
		found, _ := filepath.Glob(pattern) // the pattern is valid
		for _, path := range found {
			if filepath.Base(path) != stranger {
				left = append(left, path)
			}
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[4]; strings.HasPrefix(at, r.dir+"/") && !strings.Contains(at, "stranger-in-") {
			left = append(left, "mount "+at)
		}
	}
	return left
}
