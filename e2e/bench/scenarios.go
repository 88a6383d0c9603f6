package bench

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/types"
)

// allScenarios is the name for all scenarios that need no containers.
const allScenarios = "all"

// scenarios are all scenarios, with their default sizes.
func scenarios() []scenario {
	return append([]scenario{
		{name: "bind", about: "tasks a second, from all of them pending to the last one durably bound",
			full: size{10_000, 100_000, 5}, quick: size{500, 5000, 3}, run: runBind},
		{name: "ephemeral", about: "bind, each task asking for one of as many ephemeral resources as there are nodes",
			full: size{10_000, 100_000, 5}, quick: size{500, 5000, 3}, run: runEphemeral},
		{name: "quota", about: "bind, all tasks of the namespace drawing on one cluster-wide resource",
			full: size{10_000, 100_000, 5}, quick: size{500, 5000, 3}, run: runQuota},
		{name: "gangs8", about: "gangs of 8 with a device each, granted and bound, a second; anywhere, and in one rack each",
			full: size{5000, 36_000, 5}, quick: size{250, 1800, 3}, run: runGangs},
		{name: "growth", about: "processor time of the scheduler for each task, over that on a hundredth of the nodes",
			full: size{10_000, 100_000, 5}, quick: size{1000, 10_000, 3}, run: runGrowth},
		{name: "waiting", about: "bind, while ten times as many tasks wait for what does not exist",
			full: size{10_000, 100_000, 5}, quick: size{500, 5000, 3}, run: runWaiting},
		{name: "wake", about: "tasks a second that waited among ten times as many, each for a resource that is set now",
			full: size{10_000, 100_000, 5}, quick: size{500, 5000, 3}, run: runWake},
		{name: "schedulers", about: "bind, by 1, 2 and 4 schedulers at once",
			full: size{10_000, 100_000, 5}, quick: size{500, 5000, 3}, run: runSchedulers},
		{name: "agents", about: "bind, while an agent for each node watches and renews its session",
			full: size{10_000, 100_000, 5}, quick: size{500, 5000, 3}, run: runAgents},
		{name: "submit", about: "from submitting a task to seeing it bound, idle; beside one put of etcd",
			full: size{3, 20, 15}, quick: size{3, 10, 3}, run: runSubmit},
		{name: "start", about: "from submitting a task to seeing it run; beside containerd's client", containers: true,
			full: size{1, 1, 15}, quick: size{1, 1, 5}, run: runStart},
		{name: "tasks", about: `tasks of "true" a second, to the end; beside containerd's client`, containers: true,
			full: size{3, 500, 15}, quick: size{3, 50, 1}, run: runTasks},
		{name: "idle", about: "memory and processor time of a cluster on which nothing runs", containers: true,
			full: size{1, 1, 15}, quick: size{1, 1, 5}, run: runIdle},
		{name: "idle-agent", about: "memory and processor time of an agent with a node of its own: alone, and with sleeping containers", containers: true,
			full: size{1, 50, 5}, quick: size{1, 10, 1}, run: runIdleAgent},
	}, slices.Concat(liveScenarios(), policyScenarios(), shareScenarios(), moveScenarios(), packScenarios(), localityScenarios(), alphaScenarios())...)
}

// liveScenarios are about tasks and schedulers apart from binding speed.
func liveScenarios() []scenario {
	return []scenario{
		{name: "lifecycle", about: "tasks a second from their submission to the removal of what is left of them, sustained",
			full: size{200, 2000, 3}, quick: size{50, 500, 1}, run: runLifecycle},
		{name: "latency", about: "from submitting a task to seeing it bound, at 100 tasks a second; beside one put of etcd",
			full: size{10_000, 6000, 5}, quick: size{500, 500, 3}, run: runLatency},
		{name: "setresource", about: "setting one ephemeral resource, beside one put of etcd; and a thousand in one call",
			full: size{50, 1000, 5}, quick: size{50, 300, 3}, run: runSetResource},
		{name: "labels", about: "from submitting a task that asks for 100 ephemeral resources to seeing it bound; beside one of 1",
			full: size{100, 500, 5}, quick: size{100, 100, 3}, run: runLabels},
		{name: "unrelated", about: "binding a job while 100,000 resources are there that it does not ask for; beside none",
			full: size{1000, 10_000, 5}, quick: size{100, 1000, 3}, run: runUnrelated},
		{name: "restart", about: "from the start of a scheduler to its first binding, where a million tasks are bound",
			full: size{10_000, 1_000_000, 3}, quick: size{500, 20_000, 2}, run: runRestart},
		{name: "takeover", about: "from the end of a scheduler, kill -9, to the next binding, by another one",
			full: size{10_000, 100_000, 5}, quick: size{500, 5000, 2}, run: runTakeover},
		{name: "memory", about: "the most memory that a scheduler has with a million tasks bound, and with as many waiting",
			full: size{10_000, 1_000_000, 1}, quick: size{500, 20_000, 1}, run: runMemory},
	}
}

// Scenarios returns the names of all scenarios, with a description of each.
func Scenarios() [][2]string {
	var names [][2]string
	for _, s := range scenarios() {
		names = append(names, [2]string{s.name, s.about})
	}
	return names
}

// chosen returns the scenarios that the configuration names.
func (c Config) chosen() ([]scenario, error) {
	if c.Trace != "" && c.Scenario != "" {
		return nil, types.Errorf(types.Invalid, "trace: %q is a workload to replay, and scenario %s is something else to measure: give one of them", c.Trace, c.Scenario)
	}
	if c.Trace != "" {
		return []scenario{traceScenario()}, nil
	}
	var names []string
	var out []scenario
	for _, s := range scenarios() {
		names = append(names, s.name)
		if s.name == c.Scenario || c.Scenario == allScenarios && !s.containers {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, types.Errorf(types.Invalid, "scenario: %q is unknown: use %s or all", c.Scenario, strings.Join(names, ", "))
	}
	return out, nil
}

// of returns the configuration for a scenario, with its defaults filled in.
func (c Config) of(s scenario) (Config, error) {
	usual := s.full
	if c.Quick {
		usual = s.quick
	}
	c.Scenario, c.label = s.name, s.name
	c.Nodes, c.Tasks, c.Rounds = cmp.Or(c.Nodes, usual.nodes), cmp.Or(c.Tasks, usual.tasks), cmp.Or(c.Rounds, usual.rounds)
	c.Ops = cmp.Or(c.Ops, stockOps)
	if c.Nodes < 1 || c.Tasks < 1 || c.Rounds < 1 {
		return c, types.Errorf(types.Invalid, "nodes %d, tasks %d, rounds %d: each must be at least 1", c.Nodes, c.Tasks, c.Rounds)
	}
	if c.Ops < stockOps {
		return c, types.Errorf(types.Invalid, "ops: %d is less than etcd's own %d: use at least that", c.Ops, stockOps)
	}
	return c, refuseTmpfs(c.Dir)
}

// Run measures, and returns the rows. The error joins all failures; the rows of the rest are
// returned with it.
func Run(ctx context.Context, cfg Config) ([]Row, error) {
	chosen, err := cfg.chosen()
	if err != nil {
		return nil, err
	}
	var each []Config
	for _, s := range chosen {
		c, err := cfg.of(s)
		if err != nil {
			return nil, err
		}
		each = append(each, c)
	}
	defer collectSparingly(ctx)()
	fsync, err := fsyncLatency(cfg.Dir)
	if err != nil {
		return nil, err
	}
	p := newProgress(cfg.Progress, cfg.Width)
	defer p.close()
	p.say("disk: fsync %s (median of 100) in %s", fsync.Round(time.Microsecond), cfg.Dir)
	var rows []Row
	var errs []error
	for i, s := range chosen {
		each[i].progress = p
		more, err := s.run(ctx, each[i])
		rows, errs = append(rows, more...), append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return rows, errors.Join(errs...)
}

// collectSparingly makes garbage collection rare, so that the load does not disturb the
// measurement; ended ends that.
func collectSparingly(ctx context.Context) (ended func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.CollectGarbage(ctx) // its error is that ctx is done
	}()
	return func() {
		cancel()
		<-done
	}
}
