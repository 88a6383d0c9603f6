package hollow_test

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

// gpuSeconds recomputes from the logs of executions what the attempts of each user held: from the bind,
// which the log names, to the end of the last process.
func gpuSeconds(t *testing.T, c *hollow.Cluster, dir string, nodes []hollow.Node) map[string]float64 {
	t.Helper()
	ends := make(map[execution.Record]int64) // by node, task, attempt and revision
	for _, n := range nodes {
		path := filepath.Join(dir, n.Name, execution.Name)
		bad, err := execution.ReadFile(path, func(r execution.Record) {
			of := execution.Record{Node: r.Node, Namespace: r.Namespace, Task: r.Task, Attempt: r.Attempt, Revision: r.Revision}
			if r.Event != execution.Start {
				ends[of] = max(ends[of], r.At)
			}
		})
		if bad > 0 || err != nil {
			t.Fatalf("%s: %d bad lines, %v", path, bad, err)
		}
	}
	sums := make(map[string]float64)
	for of, ended := range ends {
		var b types.Binding
		var task types.Task
		for key, m := range map[string]types.Message{
			controlplane.BindingKey(of.Node, of.Namespace, of.Task, of.Attempt): &b, controlplane.TaskKey(of.Namespace, of.Task): &task,
		} {
			page, err := c.Store.List(t.Context(), controlplane.ListOptions{Key: key, Revision: of.Revision})
			if err != nil || len(page.KVs) != 1 || !controlplane.Read(page.KVs[0], m) {
				t.Fatalf("%s at %d: %v", key, of.Revision, err)
			}
		}
		sums[types.LabelMap(task.Labels)["user"]] += float64(b.Amount(types.GPU)) / 1000 * time.Duration(ended-b.Bound).Seconds()
	}
	return sums
}

// TestGPUSecondsAreThoseOfTheExecutions: in random runs with failures, retries, evictions, removals, and
// servers that are started again, the GPU-seconds of each user are those that the logs of executions
// tell, and every task is recorded once. No agent stops: its log has ends as of when it sees them.
func TestGPUSecondsAreThoseOfTheExecutions(t *testing.T) {
	for seed := range uint64(3) {
		dir, state := t.TempDir(), t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			nodes := []hollow.Node{}
			for _, n := range hollow.Nodes(3, 64) {
				n.GPUs = 4
				nodes = append(nodes, n)
			}
			c, err := hollow.Start(t.Context(), hollow.Config{Nodes: nodes, HistoryDir: dir, StateDir: state})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close() //nolint:errcheck // the test has ended
			client, err := controlplane.New(c.Store, "ns")
			if err != nil {
				t.Fatal(err)
			}
			const tasks = 40
			var ids []string
			for i := range tasks {
				task := hollow.Task(100, "run", strconv.Itoa(1+random.IntN(90))+"s", "exit", strconv.Itoa(random.IntN(3)/2), "stop", strconv.Itoa(random.IntN(4))+"s")
				task.Task.Requests = task.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"gpu": [...]types.Quantity{500, 1000, 2000, 3000}[random.IntN(4)]}))
				task.Task.Retries = random.IntN(2)
				task.Task.Labels = []types.Label{{Name: "user", Value: "u" + strconv.Itoa(random.IntN(3))}}
				got, err := client.Launch(t.Context(), task)
				if err != nil {
					t.Fatalf("task %d: %v", i, err)
				}
				ids = append(ids, got.Tasks...)
				time.Sleep(time.Duration(random.IntN(8000)) * time.Millisecond)
				one := ids[random.IntN(len(ids))]
				switch random.IntN(7) {
				case 0, 1:
					err = client.Evict(t.Context(), one, 0)
				case 2:
					err = client.Stop(t.Context(), one, controlplane.StopOptions{Reason: "enough"})
				case 3:
					err = client.Remove(t.Context(), one)
				case 4:
					c.StopServing()
					time.Sleep(time.Duration(random.IntN(20)) * time.Second)
					c.Serve()
				}
				if err != nil && !types.Is(err, types.Precondition) && !types.Is(err, types.NotFound) {
					t.Fatal(err)
				}
			}
			time.Sleep(30 * time.Minute)
			page, err := c.History.History(t.Context(), accounting.Filter{}, 1000, "")
			if err != nil || len(page.Tasks) != tasks {
				t.Fatalf("seed %d: %d records of %d tasks, %v", seed, len(page.Tasks), tasks, err)
			}
			sums, _, err := c.History.Usage(t.Context(), accounting.Filter{}, []accounting.By{accounting.ByUser})
			if err != nil {
				t.Fatal(err)
			}
			want, attempts := gpuSeconds(t, c, state, nodes), 0
			for _, u := range sums {
				attempts += u.Attempts
				if got, want := u.GPUSeconds, want[u.Of[0]]; math.Abs(got-want) > 1e-6*want || want == 0 {
					t.Errorf("seed %d, user %s: %v GPU-seconds, %v by the executions", seed, u.Of[0], got, want)
				}
			}
			if len(sums) != 3 || attempts <= tasks {
				t.Errorf("seed %d: %d users, %d attempts: the run tests too little", seed, len(sums), attempts)
			}
		})
	}
}
