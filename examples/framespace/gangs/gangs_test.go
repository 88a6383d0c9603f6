package gangs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// world is a cluster with an ordinary scheduler and some of this package.
type world struct {
	*hollow.Cluster
	t      *testing.T
	client *esl.Client
	stop   context.CancelFunc
	ended  chan error
	own    int
}

// start starts a cluster of nodes of one processor, with a number of own schedulers.
func start(t *testing.T, nodes, own int) *world {
	t.Helper()
	c, err := hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Nodes(nodes, 1)})
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.Client("d")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: c, t: t, client: client, own: own, ended: make(chan error, own)}
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	for range own {
		go func() { w.ended <- Run(ctx, c.Store, zap.NewNop()) }()
	}
	return w
}

// end ends everything, and checks that no revision broke an invariant.
func (w *world) end() {
	w.t.Helper()
	if err := w.Audit(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	w.stop()
	for range w.own {
		if err := <-w.ended; !errors.Is(err, context.Canceled) {
			w.t.Errorf("it ended with %v", err)
		}
	}
	if err := w.Close(); err != nil {
		w.t.Error(err)
	}
}

// own makes a submission name this scheduler.
func own(s controlplane.Submission, edit ...func(*types.Task)) controlplane.Submission {
	s.Task.Scheduler = Name
	for _, f := range edit {
		f(&s.Task)
	}
	return s
}

// submit submits a job of tasks with these numbers of thousandths of a core, and returns its tasks.
// Each task runs until it is stopped.
func (w *world) submit(name string, milliCPU ...int) []string {
	w.t.Helper()
	var tasks []controlplane.Submission
	for _, m := range milliCPU {
		tasks = append(tasks, own(hollow.Task(m)))
	}
	return w.launch(name, tasks...)
}

func (w *world) launch(name string, tasks ...controlplane.Submission) []string {
	w.t.Helper()
	job, err := w.client.LaunchJob(w.t.Context(), controlplane.Job{Name: name, Tasks: tasks})
	if err != nil {
		w.t.Fatal(err)
	}
	return job.Tasks
}

// expect checks the phases of tasks after the given time.
func (w *world) expect(after time.Duration, phase types.Phase, tasks ...string) {
	w.t.Helper()
	time.Sleep(after)
	v, err := w.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, id := range tasks {
		if got := v.Task(cluster.ID{Namespace: "d", ID: id}).Phase(); got != phase {
			w.t.Errorf("%s is %s, want %s", id, got, phase)
		}
	}
}

// soon is the time within which tasks start that can.
const soon = 3 * time.Second

// each runs scenarios on clusters of two nodes, with one own scheduler.
func each(t *testing.T, scenarios map[string]func(w *world)) {
	t.Helper()
	for name, do := range scenarios {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, 2, 1)
				do(w)
				w.end()
			})
		})
	}
}

// TestGangs: a gang is bound as a whole, whatever each task requests, or waits without holding
// anything. Other tasks are bound next to it.
func TestGangs(t *testing.T) {
	urgent := func(t *types.Task) { t.Priority = 5 }
	each(t, map[string]func(w *world){
		"all fit":  func(w *world) { w.expect(soon, types.Running, w.submit("gang", 600, 600, 400)...) },
		"one more": func(w *world) { w.expect(soon, types.Pending, w.submit("gang", 600, 600, 600)...) },
		"no gang":  func(w *world) { w.expect(soon, types.Running, w.submit("band", 600, 600, 600)[:2]...) },
		"nothing is held": func(w *world) {
			w.expect(soon, types.Pending, w.submit("gang", 600, 600, 600)...)
			w.expect(soon, types.Running, w.launch("other", hollow.Task(900), own(hollow.Task(900)))...)
		},
		"another node": func(w *world) {
			tasks := w.submit("gang", 600, 600, 600)
			w.expect(soon, types.Pending, tasks...)
			w.Add(hollow.Node{Name: "n02", Capacity: map[string]types.Quantity{string(types.CPU): 1000}})
			w.expect(soon, types.Running, tasks...)
		},
		"other tasks end": func(w *world) {
			w.launch("other", hollow.Task(900, "run", "10s"))
			time.Sleep(time.Second)
			tasks := w.submit("gang", 600, 600)
			w.expect(soon, types.Pending, tasks...)
			w.expect(10*time.Second, types.Running, tasks...)
		},
		"one of two fits": func(w *world) {
			first := w.submit("gang", 600, 600)
			time.Sleep(time.Second)
			second := w.submit("gang", 600, 600)
			w.expect(soon, types.Running, first...)
			w.expect(0, types.Pending, second...)
		},
		"the urgent one is first": func(w *world) {
			w.launch("other", hollow.Task(900, "run", "10s"))
			time.Sleep(time.Second)
			first := w.submit("gang", 600, 600)
			second := w.launch("gang", own(hollow.Task(600), urgent), own(hollow.Task(600), urgent))
			w.expect(15*time.Second, types.Running, second...)
			w.expect(0, types.Pending, first...)
		},
	})
}

// TestGangsEnd: tasks of a gang are stopped, fail, lose their node and miss their deadline like any
// other.
func TestGangsEnd(t *testing.T) {
	each(t, map[string]func(w *world){
		"one is stopped": func(w *world) {
			tasks := w.submit("gang", 600, 5000)
			w.expect(soon, types.Pending, tasks...)
			if err := w.client.Stop(w.t.Context(), tasks[1], controlplane.StopOptions{}); err != nil {
				w.t.Fatal(err)
			}
			w.expect(soon, types.Running, tasks[0])
			w.expect(0, types.Cancelled, tasks[1])
		},
		"one fails": func(w *world) {
			again := func(t *types.Task) { t.Retries = 1 }
			tasks := w.launch("gang", own(hollow.Task(600)), own(hollow.Task(600, "run", "5s", "exit", "3"), again))
			w.expect(time.Minute, types.Running, tasks[0])
			w.expect(0, types.Failed, tasks[1])
			v, err := w.View(w.t.Context())
			if err != nil {
				w.t.Fatal(err)
			}
			if s := v.Task(cluster.ID{Namespace: "d", ID: tasks[1]}).Status.V; s.Attempt != 2 {
				w.t.Errorf("attempt %d is the last", s.Attempt)
			}
		},
		"its node is lost": func(w *world) {
			tasks := w.submit("gang", 600, 600)
			w.expect(soon, types.Running, tasks...)
			if err := w.Kill(w.t.Context(), "n00"); err != nil {
				w.t.Fatal(err)
			}
			w.Add(hollow.Node{Name: "n02", Capacity: map[string]types.Quantity{string(types.CPU): 1000}})
			w.expect(time.Minute, types.Running, tasks...)
		},
		"the deadline passes": func(w *world) {
			late := func(t *types.Task) { t.Deadline = time.Now().Add(10 * time.Second).UnixNano() }
			tasks := w.launch("gang", own(hollow.Task(5000), late))
			w.expect(soon, types.Pending, tasks...)
			w.expect(10*time.Second, types.Failed, tasks...)
		},
	})
}

// TestGangsChoose: tasks of a gang have alternatives, and provide for one another.
func TestGangsChoose(t *testing.T) {
	each(t, map[string]func(w *world){
		"a second choice": func(w *world) {
			either := func(t *types.Task) {
				for i, node := range []string{"node/none", "node/n01"} {
					t.Alternatives = append(t.Alternatives, types.Alternative{
						Requests: types.NewRequests(map[string]types.Quantity{node: 1}), After: time.Duration(10*i) * time.Second,
					})
				}
			}
			tasks := w.launch("gang", own(hollow.Task(600), either), own(hollow.Task(600)))
			w.expect(9*time.Second, types.Pending, tasks...)
			w.expect(soon, types.Running, tasks...)
		},
		"each provides for the next": func(w *world) {
			next := func(t *types.Task) {
				t.Provides = []types.Provide{{Name: "link", Amount: 1, When: types.WhenBound}}
				for _, q := range []map[string]types.Quantity{{"link": 1}, {"cpu": 800}} {
					t.Alternatives = append(t.Alternatives, types.Alternative{Requests: types.NewRequests(q)})
				}
			}
			one := own(hollow.Task(100), next)
			w.expect(soon, types.Running, w.launch("gang", one, one, one)...)
		},
		"one provides for another": func(w *world) {
			gives := func(t *types.Task) {
				t.Provides, t.Priority = []types.Provide{{Name: "link", Amount: 1, When: types.WhenBound}}, 1
			}
			takes := own(hollow.Task(100))
			takes.Task.Requests = types.NewRequests(map[string]types.Quantity{"link": 1, "cpu": 100})
			w.expect(soon, types.Running, w.launch("gang", own(hollow.Task(100), gives), takes)...)
		},
	})
}

// TestLeftToIt: the ordinary scheduler does not bind the tasks that name this one, and ends them.
func TestLeftToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 2, 0)
		tasks := w.submit("gang", 100, 100)
		w.expect(time.Minute, types.Pending, tasks...)
		if err := w.client.Stop(t.Context(), tasks[0], controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
		w.expect(time.Second, types.Cancelled, tasks[0])
		w.end()
	})
}

// TestWhole runs gangs of any size next to other tasks, with two own schedulers that contend for
// them. At every revision each gang was bound whole or not at all, and all end.
func TestWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 40
		w := start(t, 6, 2)
		rng := rand.New(rand.NewPCG(1, 1))
		go func() {
			for i := range jobs {
				var tasks []controlplane.Submission
				for range 1 + rng.IntN(8) {
					tasks = append(tasks, own(hollow.Task(250*(1+rng.IntN(2)), "run", fmt.Sprintf("%dms", 200+rng.IntN(5000)))))
				}
				w.launch("gang", tasks...)
				w.launch("other", hollow.Task(250, "run", "1s"))
				time.Sleep(time.Duration(rng.IntN(600)) * time.Millisecond)
				if i == jobs/2 {
					time.Sleep(10 * time.Second) // all rest
				}
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := w.Await(ctx, func(v *cluster.View) bool {
			ended := 0
			for id, job := range v.Jobs {
				members, begun := v.Members(id), 0
				for _, m := range members {
					if m.Status.V != nil {
						begun++
					}
				}
				if job.V.Name == "gang" && begun != 0 && begun != job.V.Tasks {
					t.Errorf("at %d, %d of %d tasks of %s have been bound", v.Revision, begun, job.V.Tasks, id)
				}
				for _, m := range members {
					if m.Phase() == types.Succeeded {
						ended++
					}
				}
				ended -= job.V.Tasks
			}
			return len(v.Jobs) == 2*jobs && ended == 0
		})
		if err != nil {
			t.Error(err)
		}
		w.end()
	})
}
