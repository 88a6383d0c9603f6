package interference

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/quiet"
	"github.com/escher-sched/escher/types"
)

const (
	image  = "escher.local/core:latest"
	policy = "calm"
	// workTakes is how long the work of a victim takes on an idle core.
	workTakes = 15 * time.Second
	// settled is how long the others run before the victim comes.
	settled = time.Second
	// startWithin bounds the wait until a task runs, and workWithin that until a victim has done its work.
	startWithin, workWithin = 3 * time.Minute, 5 * time.Minute
)

// Scenarios returns the scenario.
func Scenarios() []rig.Scenario {
	return []rig.Scenario{{
		Name: "interference", About: "how much slower work is next to loud tasks by stress-ng: on nodes of the policy quiet, over nodes at random", Containers: true,
		Full: rig.Size{Nodes: 2, Tasks: 1, Rounds: 9}, Quick: rig.Size{Nodes: 2, Tasks: 1, Rounds: 1}, Run: run,
	}}
}

// bench is a live cluster.
type bench struct {
	*rig.Live
	cfg  rig.Config
	jobs *esl.Client
	// work is the directory where victims write how long they took.
	work   string
	steps  int
	stress string
}

// place says where the tasks of a draw go: on a node that it names, or by policies.
type place func() (node string, policies []esl.Policy)

// run measures.
func run(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	stress, err := exec.LookPath("stress-ng")
	if err != nil {
		return nil, types.Errorf(types.Precondition, "find stress-ng: %w: install it, such as by apt-get install stress-ng", err)
	}
	found := make(map[string][]float64)
	cfg.Mounts = []string{"/usr"}
	steps := stepsFor(workTakes)
	err = rig.WithWork(ctx, cfg, image, func(ctx context.Context, l *rig.Live, work string) error {
		b := &bench{Live: l, cfg: cfg, jobs: builtin.New(l.Client), work: work, steps: steps, stress: stress}
		if err := b.jobs.Declare(ctx, policy, quiet.Quiet{}, ""); err != nil {
			return err
		}
		return b.draws(ctx, found)
	})
	if err != nil {
		return nil, err
	}
	row := rig.NewRow(cfg, cfg.Scenario, "times as slow", found["quiet"]).Over("random nodes", found["quiet"], found["random"])
	avoided := 1 - (rig.Median(found["quiet"])-1)/(rig.Median(found["random"])-1)
	row.AddDetail("avoided", []float64{avoided}).AddDetail("alone_s", found["alone"]).AddDetail("first_draw", found["quiet"][:1])
	row.AddDetail("quiet_mean", []float64{mean(found["quiet"])}).AddDetail("random_mean", []float64{mean(found["random"])})
	return []rig.Row{*row.Require(cfg.Must, rig.Target{Figure: "avoided", Must: 0.5})}, nil
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, x := range all {
		sum += x
	}
	return sum / float64(len(all))
}

// draws measures the victim alone, with nodes at random, and with those of the policy, again and again.
func (b *bench) draws(ctx context.Context, found map[string][]float64) error {
	random := rand.New(rand.NewPCG(1, 2))
	at := func(node int) place {
		return func() (string, []esl.Policy) { return "node-" + strconv.Itoa(node+1), nil }
	}
	arms := map[string]place{
		"random": func() (string, []esl.Policy) { return at(random.IntN(b.cfg.Nodes))() },
		"quiet":  nil,
	}
	for i := range b.cfg.Rounds {
		alone, _, err := b.victim(ctx, at(i%b.cfg.Nodes))
		if err != nil {
			return err
		}
		order := []string{"random", "quiet"}
		if i%2 == 1 {
			order = []string{"quiet", "random"}
		}
		said := ""
		for _, arm := range order {
			took, where, err := b.draw(ctx, arms[arm])
			if err != nil {
				return fmt.Errorf("%s: %w", arm, err)
			}
			found[arm] = append(found[arm], took/alone)
			said += fmt.Sprintf("; %s %.2f times as slow (%s)", arm, took/alone, where)
		}
		found["alone"] = append(found["alone"], alone)
		b.cfg.Say("draw %d of %d: alone %.1f s%s", i+1, b.cfg.Rounds, alone, said)
	}
	return nil
}

// draw starts the loud tasks and a resting one, and then a victim. It returns how long that took, and where
// the tasks were.
func (b *bench) draw(ctx context.Context, on place) (seconds float64, where string, err error) {
	var others []string
	for _, x := range []struct {
		name    string
		command []string
	}{
		{"cache", []string{"run", b.stress, "--timeout", "0", "--cpu", "2", "--cpu-method", "matrixprod"}},
		{"faults", []string{"run", b.stress, "--timeout", "0", "--vm", "2", "--vm-bytes", "64M"}},
		{"rest", []string{"rest"}},
	} {
		id, node, err := b.start(ctx, x.name, x.command, on, "tolerant")
		if err != nil {
			return 0, "", err
		}
		others, where = append(others, id), where+x.name+" "+node+", "
	}
	if err := rig.Sleep(ctx, settled); err != nil {
		return 0, "", err
	}
	seconds, node, err := b.victim(ctx, on)
	if err != nil {
		return 0, "", err
	}
	for _, id := range others {
		if s, err := b.Client.Status(ctx, id); err != nil || s.Phase() != types.Running {
			return 0, "", types.Errorf(types.Internal, "task %s does not run next to the victim: %v", id, err)
		}
		if err := b.End(ctx, id); err != nil {
			return 0, "", err
		}
	}
	return seconds, where + "victim " + node, nil
}

// victim runs one, and returns how long it took, and where it was.
func (b *bench) victim(ctx context.Context, on place) (seconds float64, node string, err error) {
	id, node, err := b.start(ctx, "victim", []string{"work", b.work, strconv.Itoa(b.steps)}, on, "")
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, workWithin)
	defer cancel()
	s, err := b.jobs.Wait(ctx, controlplane.UntilEnded, id)
	if err != nil {
		return 0, "", err
	}
	if s[id].Phase != types.Succeeded {
		return 0, "", types.Errorf(types.Internal, "the victim on %s has not done its work: %s", node, s[id].Reason)
	}
	text, err := os.ReadFile(filepath.Join(b.work, id))
	if err != nil {
		return 0, "", err
	}
	seconds, err = strconv.ParseFloat(string(text), 64)
	return seconds, node, err
}

// start starts a task, and returns where it runs.
func (b *bench) start(ctx context.Context, name string, command []string, on place, as string) (id, node string, err error) {
	requests := map[string]types.Quantity{string(types.CPU): 250}
	policies := []esl.Policy{esl.Use{Name: policy, As: as}}
	if on != nil {
		var at string
		at, policies = on()
		requests["node/"+at] = 1
	}
	one := controlplane.Submission{
		Task: types.Task{Name: name, Requests: types.NewRequests(requests)},
		Spec: &types.Spec{
			Image: image, Command: append([]string{"/bin/escher-bench", CoreCommand}, command...), Grace: time.Second, CPULimit: types.CPUNone,
			Mounts: []types.Mount{
				{Source: b.work, Target: b.work}, {Source: "/usr", Target: "/usr", ReadOnly: true},
				{Source: "/usr/lib", Target: "/lib", ReadOnly: true}, {Source: "/usr/lib64", Target: "/lib64", ReadOnly: true},
			},
		},
	}
	done, err := b.jobs.Submit(ctx, controlplane.Job{Name: name, Tasks: []controlplane.Submission{one}}, policies...)
	if err != nil {
		return "", "", err
	}
	id = done.Tasks[0]
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	s, err := b.jobs.Wait(ctx, controlplane.UntilRunning, id)
	return id, s[id].Node, err
}
