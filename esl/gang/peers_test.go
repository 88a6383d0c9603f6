package gang_test

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// hosts makes nodes with addresses and ports.
func hosts(n, cores int) []hollow.Node {
	nodes := hollow.Nodes(n, cores)
	for i := range nodes {
		nodes[i].Host, nodes[i].PortFirst, nodes[i].PortLast = fmt.Sprintf("10.0.0.%d", i+1), 20000, 20009
	}
	return nodes
}

// told is a cluster that records what processes know of their jobs.
type told struct {
	esltest.Gangs
	envs *esltest.Environments
}

func startTold(t *testing.T, nodes []hollow.Node) told {
	envs := new(esltest.Environments)
	return told{esltest.StartGangs(t, hollow.Config{Nodes: nodes, Behave: envs.Behave}), envs}
}

// addresses returns the addresses of the tasks of a job by their bindings.
func (g told) addresses(job controlplane.Launched) (out []string) {
	g.T.Helper()
	v := g.Snapshot()
	for _, id := range job.Tasks {
		b := v.Task(cluster.ID{Namespace: "d", ID: id}).Bindings[0]
		port := 0
		if numbers := b.Info.V.Full().Ports(); len(numbers) > 0 {
			port = numbers[0]
		}
		out = append(out, net.JoinHostPort(b.Node.Info.V.Host, strconv.Itoa(port)))
	}
	return out
}

// started waits until all tasks of a job run, each started n times. It asks for the number, as all
// may run again before it looks.
func (g told) started(job controlplane.Launched, n int) {
	g.T.Helper()
	g.AwaitView(func(v *cluster.View) bool {
		before := func(id string) bool { return g.envs.Starts(id) < n }
		return len(hollow.Running(v, "d")) == len(job.Tasks) && !slices.ContainsFunc(job.Tasks, before)
	})
}

// agree checks that all members were told the truth, and the same.
func (g told) agree(job controlplane.Launched) {
	g.T.Helper()
	at := g.addresses(job)
	host, port, err := net.SplitHostPort(at[0])
	if err != nil {
		g.T.Fatal(err)
	}
	for i, id := range job.Tasks {
		n := strconv.Itoa(len(job.Tasks))
		want := map[string]string{
			"ESCHER_JOB": job.Job, "ESCHER_INDEX": strconv.Itoa(i), "ESCHER_COUNT": n, "ESCHER_PEERS": strings.Join(at, ","),
			"MASTER_ADDR": host, "MASTER_PORT": port, "NODE_RANK": strconv.Itoa(i), "NNODES": n, "ESCHER_TASK": id,
			"ESCHER_ATTEMPT": strconv.Itoa(g.Snapshot().Task(cluster.ID{Namespace: "d", ID: id}).Status.V.Attempt),
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if got := g.envs.Of(id, name); got != want[name] {
				g.T.Errorf("%s of %s is %q, want %q", name, id, got, want[name])
			}
		}
	}
}

// TestGangKnowsItsPeers tells each member of a gang its index and all addresses, also after the gang
// has begun again on other nodes.
func TestGangKnowsItsPeers(t *testing.T) {
	long := strings.Repeat("n", types.MaxName)
	for name, c := range map[string]struct {
		name  string
		n     int
		nodes int
		cores int
		gang  gang.Gang
	}{
		"on several nodes":  {"train", 3, 4, 1, gang.Gang{Loss: esl.Restart}},
		"several on a node": {"train", 6, 3, 3, gang.Gang{Loss: esl.Restart, PerNode: 3}},
		"names of 63 bytes": {long, 3, 4, 1, gang.Gang{Loss: esl.Restart}},
		"a job of one task": {"train", 1, 2, 1, gang.Gang{Loss: esl.Restart}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := startTold(t, hosts(c.nodes, c.cores))
				task := hollow.Task(1000)
				task.Task.Name = c.name
				job := g.SubmitTasks(c.n, task, c.gang)
				nodes := g.Running(job)
				g.agree(job)
				g.Lose(nodes[0])
				g.started(job, 2)
				g.agree(job)
				before := g.addresses(job)
				g.FailTask(job.Tasks[c.n-1])
				g.started(job, 3)
				g.agree(job)
				if starts := g.envs.Starts(job.Tasks[0]); starts != 3 {
					t.Errorf("it was started %d times, last at %v", starts, before)
				}
			})
		})
	}
}

// fixed gives a task ports of its own, of which peers use the second.
func fixed(s controlplane.Submission) controlplane.Submission {
	s.Spec.Ports = []types.TaskPort{{Name: "http"}, {Name: types.PeerPort, Number: 29500}}
	s.Task.Requests = s.Spec.WithImplied(s.Task.Requests)
	return s
}

// TestPeersOfJobs: what processes know depends on the policies of the job and its own fields.
func TestPeersOfJobs(t *testing.T) {
	own := func(s controlplane.Submission) controlplane.Submission {
		s.Spec.Env = []string{"MASTER_ADDR=mine", "ESCHER_INDEX=7"}
		return s
	}
	for name, c := range map[string]struct {
		policies []esl.Policy
		change   func(controlplane.Submission) controlplane.Submission
		ports    bool
		want     map[string]string // of the second of two tasks
	}{
		"an array": {nil, nil, true, map[string]string{
			"ESCHER_INDEX": "1", "ESCHER_COUNT": "2", "ESCHER_PEERS": "none", "MASTER_ADDR": "none", "PORT": "none",
		}},
		"a gang": {[]esl.Policy{gang.Gang{}}, nil, true, map[string]string{
			"ESCHER_PEERS": "10.0.0.1:20000,10.0.0.2:20000", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "20000", "PORT": "20000", "ESCHER_PORT_PEER": "20000",
		}},
		"a gang, each alone": {[]esl.Policy{gang.Gang{Loss: esl.Alone}}, nil, true, map[string]string{
			"ESCHER_PEERS": "10.0.0.1:20000,10.0.0.2:20000", "NODE_RANK": "1",
		}},
		"a gang on nodes without ports": {[]esl.Policy{gang.Gang{}}, nil, false, map[string]string{
			"ESCHER_PEERS": "10.0.0.1:0,10.0.0.2:0", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "none", "PORT": "none",
		}},
		"a gang with ports of its own": {[]esl.Policy{gang.Gang{}}, fixed, true, map[string]string{
			"ESCHER_PEERS": "10.0.0.1:29500,10.0.0.2:29500", "MASTER_PORT": "29500", "ESCHER_PORT_PEER": "29500", "ESCHER_PORT_HTTP": "20000",
		}},
		"a gang with variables of its own": {[]esl.Policy{gang.Gang{}}, own, true, map[string]string{
			"MASTER_ADDR": "mine", "ESCHER_INDEX": "7", "NODE_RANK": "1",
		}},
		"an elastic job": {[]esl.Policy{room.Elastic{Min: 1}}, nil, true, map[string]string{
			"ESCHER_INDEX": "1", "ESCHER_PEERS": "none", "ESCHER_PORT_PEER": "20000",
		}},
		"a gang of two groups": {[]esl.Policy{gang.Gang{}}, func(s controlplane.Submission) controlplane.Submission {
			if s.Task.Requests.Get("node/n00") > 0 {
				return fixed(s)
			}
			return s
		}, true, map[string]string{
			"ESCHER_PEERS": "10.0.0.1:29500,10.0.0.2:20000", "MASTER_PORT": "29500", "PORT": "20000", "NODE_RANK": "1",
		}},
		"an array that waits for all": {nil, func(s controlplane.Submission) controlplane.Submission {
			s.Spec.Peers = types.WholePeers
			return s
		}, true, map[string]string{"ESCHER_PEERS": "10.0.0.1:0,10.0.0.2:0"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := hosts(2, 1)
				if !c.ports {
					nodes[1].PortFirst, nodes[1].PortLast = 0, 0
				}
				g := startTold(t, nodes)
				tasks := []controlplane.Submission{on("n00", hollow.Task(1000)), on("n01", hollow.Task(1000))}
				for i := range tasks {
					if c.change != nil {
						tasks[i] = c.change(tasks[i])
					}
				}
				job, err := g.Submit(t.Context(), controlplane.Job{Name: "train", Tasks: tasks}, c.policies...)
				if err != nil {
					t.Fatal(err)
				}
				g.Running(job)
				for _, name := range slices.Sorted(maps.Keys(c.want)) {
					if got := g.envs.Of(job.Tasks[1], name); got != c.want[name] {
						t.Errorf("%s is %q, want %q", name, got, c.want[name])
					}
				}
			})
		})
	}
}

// TestPeersAreAwaited: a task that knows the whole job starts when all tasks have a node, and says
// what it waits for.
func TestPeersAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startTold(t, hosts(1, 1))
		task := hollow.Task(1000)
		task.Spec.Peers = types.WholePeers
		job := g.SubmitTasks(2, task)
		time.Sleep(10 * time.Second)
		v := g.Snapshot()
		first := v.Task(cluster.ID{Namespace: "d", ID: job.Tasks[0]})
		if want := "wait for peers: task " + job.Tasks[1] + " has no node at attempt 1 yet"; first.Phase() != types.Bound || first.Status.V.Full().Reason != want {
			t.Errorf("it is %s: %q, want %q", first.Phase(), first.Status.V.Full().Reason, want)
		}
		g.Add(hosts(2, 1)[1])
		g.Running(job)
		if got := g.envs.Of(job.Tasks[0], "ESCHER_PEERS"); got != "10.0.0.1:0,10.0.0.2:0" {
			t.Errorf("the first knows %s", got)
		}
	})
}

// TestPeersAlone: a member that runs again alone knows where the others are at present.
func TestPeersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startTold(t, hosts(4, 1))
		job := g.SubmitTasks(3, hollow.Task(1000), gang.Gang{Loss: esl.Alone}, place.Apart{})
		nodes := g.Running(job)
		before := g.envs.Of(job.Tasks[0], "ESCHER_PEERS")
		g.Lose(nodes[1])
		g.AwaitView(func(v *cluster.View) bool {
			on := hollow.Running(v, "d")
			return len(on) == 3 && on[job.Tasks[1]] != nodes[1]
		})
		at := strings.Join(g.addresses(job), ",")
		if got := g.envs.Of(job.Tasks[1], "ESCHER_PEERS"); got != at || at == before {
			t.Errorf("the one that moved knows %s, want %s, before %s", got, at, before)
		}
		if n := g.envs.Starts(job.Tasks[0]); n != 1 {
			t.Errorf("the others were started %d times", n)
		}
	})
}

// TestOlderSubmission: a task of an older client has no index, rather than a wrong one.
func TestOlderSubmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startTold(t, hosts(1, 1))
		old := hollow.Task(100)
		digest := controlplane.SpecDigest(old.Spec)
		task := old.Task
		task.Job, task.Spec, task.Submitted = "train", digest, time.Now().UnixNano()
		change := controlplane.NewChange(controlplane.NewBatch())
		change.Put(controlplane.SpecKey("d", digest), old.Spec)
		change.Put(controlplane.TaskKey("d", "train.1"), &task)
		change.Put(controlplane.JobKey("d", "train"), &types.Job{Tasks: 1})
		if _, err := controlplane.Commit(t.Context(), g.Cluster.Store, change.Txn()); err != nil {
			t.Fatal(err)
		}
		job := controlplane.Launched{Tasks: []string{"train.1"}}
		g.Running(job)
		for name, want := range map[string]string{"ESCHER_JOB": "train", "ESCHER_INDEX": "none", "ESCHER_COUNT": "none"} {
			if got := g.envs.Of("train.1", name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}
