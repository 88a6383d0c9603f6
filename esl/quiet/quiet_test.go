package quiet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/quiet"
	"github.com/escher-sched/escher/types"
)

// house is a cluster of nodes of eight cores, in virtual time, with the policy calm.
type house struct {
	t *testing.T
	*hollow.Cluster
	jobs *esl.Client
	// kinds are the kinds of tasks, by id.
	kinds map[string]string
}

// run runs a test on n such nodes. slows says how much a task of a kind loses next to one of another.
func run(t *testing.T, n int, p quiet.Quiet, slows map[string]float64, test func(h *house)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Nodes(n, 8)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		h := &house{t: t, Cluster: c, kinds: make(map[string]string)}
		if h.jobs, err = c.Client("d"); err != nil {
			t.Fatal(err)
		}
		if err := h.jobs.Declare(t.Context(), "calm", p, ""); err != nil {
			t.Fatal(err)
		}
		h.slow(slows)
		test(h)
		if err := c.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// slow changes what kinds lose: "a b" is what a loses next to b, "a" what it loses alone.
func (h *house) slow(slows map[string]float64) {
	h.SetLosses(func(task cluster.ID, beside []cluster.ID) float64 {
		kind := kindOf(task)
		seen := map[string]bool{kind: true}
		lost := slows[kind]
		for _, id := range beside {
			if other := kindOf(id); !seen[other] {
				seen[other] = true
				lost += slows[kind+" "+other]
			}
		}
		return min(1, lost)
	})
}

// kindOf returns the name of the job of a task: its id begins with it.
func kindOf(id cluster.ID) string {
	name, _, _ := strings.Cut(id.ID, "-")
	return name
}

// submit submits n tasks of half a core of a kind.
func (h *house) submit(kind string, n int, as string, more ...esl.Policy) controlplane.Launched {
	h.t.Helper()
	tasks := esl.Copies(n, hollow.Task(500))
	for i := range tasks {
		tasks[i].Task.Name = kind
	}
	job, err := h.jobs.Submit(h.t.Context(), controlplane.Job{Name: kind, Tasks: tasks}, append(more, esl.Use{Name: "calm", As: as})...)
	if err != nil {
		h.t.Fatal(err)
	}
	return job
}

func (h *house) stop(jobs ...controlplane.Launched) {
	h.t.Helper()
	for _, j := range jobs {
		for _, id := range j.Tasks {
			if err := h.jobs.Stop(h.t.Context(), id, controlplane.StopOptions{}); err != nil {
				h.t.Fatal(err)
			}
		}
		if len(j.Tasks) > 0 {
			esltest.Statuses(h.t, h.jobs, controlplane.UntilEnded, j.Tasks...)
		}
	}
}

// nodes returns the nodes of the running tasks of jobs, each once.
func (h *house) nodes(jobs ...controlplane.Launched) []string {
	h.t.Helper()
	v := h.view()
	var out []string
	for _, j := range jobs {
		for _, id := range j.Tasks {
			if t := v.Task(esltest.IDOf(id)); t.Phase() == types.Running && !slices.Contains(out, t.Status.V.Node) {
				out = append(out, t.Status.V.Node)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (h *house) view() *cluster.View {
	h.t.Helper()
	v, err := h.View(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return v
}

// part returns what is known of a pair: percents and samples.
func (h *house) part(pair string) (percent, samples int) {
	p := h.view().Pool(types.Resolve("d", "calm.quiet."+pair))
	if p == nil {
		return 0, 0
	}
	return int(p.Capacity() / 1000), int(p.Capacity() % 1000)
}

// wantRunning fails the test if not so many tasks run.
func (h *house) wantRunning(job controlplane.Launched, want int, when string) {
	h.t.Helper()
	if got := esltest.HowMany(h.t, h.Cluster, job.Tasks); got != want {
		h.t.Errorf("%s: %d tasks of %s run, want %d", when, got, job.Job, want)
	}
}

// victim is the usual world: db loses half of its time next to loud, and nothing next to idle.
func victim() map[string]float64 { return map[string]float64{"db loud": 0.5} }

// meet has db and loud run on the one node that is not full until it is known what they lose.
func (h *house) meet() {
	h.t.Helper()
	var full controlplane.Launched
	if others := len(h.view().Nodes) - 1; others > 0 {
		full = esltest.Submitted(h.t, h.jobs, esl.Copies(others, hollow.Task(8000)))
		esltest.Pass(time.Second)
	}
	db, loud := h.submit("db", 1, ""), h.submit("loud", 1, "tolerant")
	esltest.Pass(time.Minute)
	if percent, samples := h.part("db.loud"); percent < 40 || percent > 55 || samples < 2 {
		h.t.Fatalf("db loses %d %% next to loud by %d samples", percent, samples)
	}
	h.stop(db, loud, full)
	esltest.Pass(time.Second)
}

// TestLearns: what a kind loses next to another one is learned from their first meeting, and harmless ones
// are not blamed.
func TestLearns(t *testing.T) {
	slows := victim()
	slows["db"] = 0.08
	run(t, 1, quiet.Quiet{}, slows, func(h *house) {
		db := h.submit("db", 1, "")
		esltest.Pass(time.Minute)
		idle := h.submit("idle", 2, "tolerant")
		esltest.Pass(2 * time.Minute)
		loud := h.submit("loud", 1, "tolerant")
		esltest.Pass(time.Minute)
		h.wantRunning(db, 1, "db")
		h.wantRunning(idle, 2, "idle")
		h.wantRunning(loud, 1, "tried")
		for pair, want := range map[string][2]int{"db.alone": {4, 12}, "db.idle": {0, 7}, "db.loud": {40, 55}} {
			if got, n := h.part(pair); got < want[0] || got > want[1] || n < 2 {
				t.Errorf("%s: %d %% by %d samples, want %v", pair, got, n, want)
			}
		}
		if got, n := h.part("loud.db"); n != 0 {
			t.Errorf("what a tolerant kind loses is learned: %d", got)
		}
	})
}

// TestKeepsApart: known enemies get different nodes, whichever comes first, and harmless ones share.
func TestKeepsApart(t *testing.T) {
	run(t, 1, quiet.Quiet{Wait: manifest.Wait(10 * time.Minute)}, victim(), func(h *house) {
		h.meet()
		db := h.submit("db", 2, "")
		esltest.Pass(time.Second)
		loud := h.submit("loud", 2, "tolerant")
		esltest.Pass(5 * time.Minute)
		h.wantRunning(db, 2, "first")
		h.wantRunning(loud, 0, "next to db")
		idle := h.submit("idle", 1, "tolerant")
		esltest.Pass(time.Second)
		h.wantRunning(idle, 1, "harmless")
		text := esltest.TaskWhy(t, h.Cluster, loud.Tasks[0])
		if !strings.Contains(text, "quiet: no node with room is quiet for kind loud; what tasks lose there: n00 (db: ") || !strings.Contains(text, "it takes the least bad one in 4m59s") {
			t.Errorf("why: %q", text)
		}
		h.stop(db)
		esltest.Pass(time.Second)
		h.wantRunning(loud, 2, "after db")
		db = h.submit("db", 1, "")
		esltest.Pass(time.Minute)
		h.wantRunning(db, 0, "next to loud")
	})
}

// TestTwoNodes: of two nodes, enemies get one each, also when all wait at once.
func TestTwoNodes(t *testing.T) {
	run(t, 2, quiet.Quiet{}, victim(), func(h *house) {
		h.meet()
		for range 5 {
			jobs := []controlplane.Launched{h.submit("loud", 3, "tolerant"), h.submit("db", 3, ""), h.submit("loud", 2, "tolerant"), h.submit("db", 2, "")}
			esltest.Pass(2 * time.Second)
			for _, j := range jobs {
				h.wantRunning(j, len(j.Tasks), "with room")
			}
			dbs, louds := h.nodes(jobs[1], jobs[3]), h.nodes(jobs[0], jobs[2])
			if len(dbs) != 1 || len(louds) != 1 || dbs[0] == louds[0] {
				t.Errorf("db is on %v, loud on %v", dbs, louds)
			}
			h.stop(jobs...)
		}
	})
}

// TestLeavesQuiet: kinds that are known to be loud share a node, so that another one is quiet for what comes.
func TestLeavesQuiet(t *testing.T) {
	slows := victim()
	slows["db noisy"] = 0.4
	run(t, 3, quiet.Quiet{}, slows, func(h *house) {
		h.meet()
		full := esltest.Submitted(t, h.jobs, esl.Copies(2, hollow.Task(8000)))
		esltest.Pass(time.Second)
		db, noisy := h.submit("db", 1, ""), h.submit("noisy", 1, "tolerant")
		esltest.Pass(time.Minute)
		h.stop(db, noisy, full)
		esltest.Pass(time.Second)
		noisy, loud := h.submit("noisy", 2, "tolerant"), h.submit("loud", 2, "tolerant")
		esltest.Pass(10 * time.Second)
		h.wantRunning(noisy, 2, "alone")
		h.wantRunning(loud, 2, "with noisy")
		if a, b := h.nodes(noisy), h.nodes(loud); len(a) != 1 || !slices.Equal(a, b) {
			t.Errorf("noisy is on %v, loud on %v", a, b)
		}
		db = h.submit("db", 6, "")
		esltest.Pass(10 * time.Second)
		h.wantRunning(db, 6, "on the rest")
		if slices.Contains(h.nodes(db), h.nodes(loud)[0]) {
			t.Errorf("db is on %v, loud on %v", h.nodes(db), h.nodes(loud))
		}
	})
}

// TestUnknownPairs: an unknown pair is tried by one task on one node, and the rest follow when it is known
// as harmless.
func TestUnknownPairs(t *testing.T) {
	run(t, 4, quiet.Quiet{}, victim(), func(h *house) {
		h.submit("db", 8, "")
		esltest.Pass(30 * time.Second)
		for _, x := range []struct {
			kind  string
			tried int
			then  int
		}{{"idle", 1, 8}, {"loud", 1, 1}} {
			job := h.submit(x.kind, 8, "tolerant")
			esltest.Pass(3 * time.Second)
			nodes := len(h.nodes(job))
			h.wantRunning(job, nodes, "tried, one on a node")
			if nodes != 1 {
				t.Errorf("%s is tried on %d nodes", x.kind, nodes)
			}
			if text := esltest.TaskWhy(t, h.Cluster, job.Tasks[7]) + esltest.TaskWhy(t, h.Cluster, job.Tasks[0]); !strings.Contains(text, "that is being tried") {
				t.Errorf("why: %q", text)
			}
			esltest.Pass(40 * time.Second)
			h.wantRunning(job, x.then, "known")
		}
	})
}

// TestNoMeasurements: nodes that do not tell the pressure make no task wait forever: the pair counts as
// harmless after a while.
func TestNoMeasurements(t *testing.T) {
	run(t, 1, quiet.Quiet{Wait: manifest.Wait(time.Hour)}, victim(), func(h *house) {
		h.SetLosses(nil)
		h.submit("db", 1, "")
		esltest.Pass(10 * time.Second)
		loud := h.submit("loud", 3, "tolerant")
		esltest.Pass(10 * time.Second)
		h.wantRunning(loud, 1, "tried")
		esltest.Pass(time.Minute)
		h.wantRunning(loud, 3, "not known after a minute")
	})
}

// TestRestarted: another program knows what was learned.
func TestRestarted(t *testing.T) {
	run(t, 1, quiet.Quiet{Wait: manifest.Wait(time.Hour)}, victim(), func(h *house) {
		h.meet()
		h.StopKeeping()
		esltest.Pass(2 * time.Minute)
		h.Keep()
		db := h.submit("db", 1, "")
		esltest.Pass(time.Second)
		loud := h.submit("loud", 1, "tolerant")
		esltest.Pass(10 * time.Minute)
		h.wantRunning(db, 1, "after the restart")
		h.wantRunning(loud, 0, "next to db, after the restart")
	})
}

// TestLostNode: tasks of a lost node get another one, where it is quiet.
func TestLostNode(t *testing.T) {
	run(t, 3, quiet.Quiet{}, victim(), func(h *house) {
		h.meet()
		loud := h.submit("loud", 1, "tolerant")
		esltest.Pass(time.Second)
		db := h.submit("db", 2, "")
		esltest.Pass(time.Second)
		at := h.nodes(db)
		if err := h.Kill(t.Context(), at[0]); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(3 * time.Minute)
		h.wantRunning(db, 2, "after the loss")
		if now := h.nodes(db); len(now) != 1 || now[0] == at[0] || now[0] == h.nodes(loud)[0] {
			t.Errorf("db was on %v and is on %v, loud on %v", at, now, h.nodes(loud))
		}
	})
}

// TestWaits: a task for which no node is quiet goes where least is lost, after its time and not before, and
// so do later ones.
func TestWaits(t *testing.T) {
	slows := victim()
	slows["web loud"] = 0.2
	run(t, 2, quiet.Quiet{Wait: manifest.Wait(90 * time.Second)}, slows, func(h *house) {
		h.meet()
		full := esltest.Submitted(t, h.jobs, esl.Copies(1, hollow.Task(8000)))
		esltest.Pass(time.Second)
		web, loud := h.submit("web", 1, ""), h.submit("loud", 1, "tolerant")
		esltest.Pass(time.Minute)
		h.stop(web, loud, full)
		db := h.submit("db", 1, "")
		esltest.Pass(time.Second)
		web = h.submit("web", 1, "")
		esltest.Pass(time.Minute)
		if slices.Equal(h.nodes(db), h.nodes(web)) {
			t.Fatalf("db and web are on %v", h.nodes(db))
		}
		loud = h.submit("loud", 2, "tolerant")
		esltest.Pass(80 * time.Second)
		h.wantRunning(loud, 0, "before its time")
		esltest.Pass(20 * time.Second)
		h.wantRunning(loud, 2, "after its time")
		if got, want := h.nodes(loud), h.nodes(web); !slices.Equal(got, want) {
			t.Errorf("loud is on %v, want %v, where least is lost", got, want)
		}
	})
}

// TestForgets: an enemy is tried again after some hours, and becomes a neighbor if it has changed.
func TestForgets(t *testing.T) {
	run(t, 1, quiet.Quiet{Wait: manifest.Wait(24 * time.Hour)}, victim(), func(h *house) {
		h.meet()
		db := h.submit("db", 1, "")
		esltest.Pass(time.Second)
		loud := h.submit("loud", 1, "tolerant")
		h.slow(nil)
		esltest.Pass(5 * time.Minute)
		h.wantRunning(loud, 0, "soon")
		esltest.Pass(12 * time.Hour)
		h.wantRunning(db, 1, "later")
		h.wantRunning(loud, 1, "later")
		if percent, samples := h.part("db.loud"); percent > 5 || samples < 5 {
			t.Errorf("%d %% by %d samples", percent, samples)
		}
	})
}

// TestComposes: gangs and spread tasks begin on quiet nodes.
func TestComposes(t *testing.T) {
	run(t, 4, quiet.Quiet{}, victim(), func(h *house) {
		h.meet()
		loud := h.submit("loud", 1, "tolerant")
		esltest.Pass(time.Second)
		for name, p := range map[string]esl.Policy{"gang": gang.Gang{}, "apart": place.Apart{}, "spread": place.Spread{}} {
			db := h.submit("db", 3, "", p)
			esltest.Pass(20 * time.Second)
			h.wantRunning(db, 3, name)
			if slices.Contains(h.nodes(db), h.nodes(loud)[0]) {
				t.Errorf("%s: db is on %v, loud on %v", name, h.nodes(db), h.nodes(loud))
			}
			h.stop(db)
		}
		// Four that are to be apart need the node of loud too.
		db := h.submit("db", 4, "", place.Apart{})
		esltest.Pass(4 * time.Minute)
		h.wantRunning(db, 4, "apart on four nodes")
	})
}

// TestRefused names what is wrong.
func TestRefused(t *testing.T) {
	run(t, 1, quiet.Quiet{}, nil, func(h *house) {
		for want, use := range map[string]esl.Use{
			`as: "loud" is unknown`: {Name: "calm", As: "loud"}, "amount: 2": {Name: "calm", Amount: 2},
		} {
			_, err := h.jobs.Submit(t.Context(), controlplane.Job{Name: "db", Tasks: esl.Copies(1, hollow.Task(500))}, use)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		for want, err := range map[string]error{
			"slowdown: 91":     quiet.Quiet{Slowdown: 91}.Validate(),
			"name: quiet is":   quiet.Quiet{}.Apply(nil),
			"is too long":      h.jobs.Declare(t.Context(), strings.Repeat("x", 40), quiet.Quiet{}, ""),
			"slowdown: -1 is ": quiet.Quiet{Slowdown: -1}.Validate(),
		} {
			if !types.Is(err, types.Invalid) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
	})
}
