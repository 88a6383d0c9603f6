package bench

import (
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/e2e/bench/alphazero"
	"github.com/escher-sched/escher/e2e/bench/connected"
	"github.com/escher-sched/escher/e2e/bench/cost"
	"github.com/escher-sched/escher/e2e/bench/estimate"
	"github.com/escher-sched/escher/e2e/bench/fgd"
	"github.com/escher-sched/escher/e2e/bench/gang"
	"github.com/escher-sched/escher/e2e/bench/hfs"
	"github.com/escher-sched/escher/e2e/bench/interference"
	"github.com/escher-sched/escher/e2e/bench/interleave"
	"github.com/escher-sched/escher/e2e/bench/migration"
	"github.com/escher-sched/escher/e2e/bench/order"
	"github.com/escher-sched/escher/e2e/bench/oversubscribe"
	"github.com/escher-sched/escher/e2e/bench/philly"
	"github.com/escher-sched/escher/e2e/bench/replay"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/wordcount"
	"github.com/escher-sched/escher/types"
)

// allScenarios is the name for all scenarios that need no containers.
const allScenarios = "all"

// scenarios are all scenarios, with their default sizes.
func scenarios() []rig.Scenario {
	return append([]rig.Scenario{
		{Name: "bind", About: "tasks a second, from all of them pending to the last one durably bound",
			Full: rig.Size{Nodes: 10_000, Tasks: 100_000, Rounds: 5}, Quick: rig.Size{Nodes: 500, Tasks: 5000, Rounds: 3}, Run: runBind},
		{Name: "ephemeral", About: "bind, each task asking for one of as many ephemeral resources as there are nodes",
			Full: rig.Size{Nodes: 10_000, Tasks: 100_000, Rounds: 5}, Quick: rig.Size{Nodes: 500, Tasks: 5000, Rounds: 3}, Run: runEphemeral},
		{Name: "quota", About: "bind, all tasks of the namespace drawing on one cluster-wide resource",
			Full: rig.Size{Nodes: 10_000, Tasks: 100_000, Rounds: 5}, Quick: rig.Size{Nodes: 500, Tasks: 5000, Rounds: 3}, Run: runQuota},
		{Name: "gangs8", About: "gangs of 8 with a device each, granted and bound, a second; anywhere, and in one rack each",
			Full: rig.Size{Nodes: 5000, Tasks: 36_000, Rounds: 5}, Quick: rig.Size{Nodes: 250, Tasks: 1800, Rounds: 3}, Run: runGangs},
		{Name: "growth", About: "processor time of the scheduler for each task, over that on a hundredth of the nodes",
			Full: rig.Size{Nodes: 10_000, Tasks: 100_000, Rounds: 5}, Quick: rig.Size{Nodes: 1000, Tasks: 10_000, Rounds: 3}, Run: runGrowth},
		{Name: "waiting", About: "bind, while ten times as many tasks wait for what does not exist",
			Full: rig.Size{Nodes: 10_000, Tasks: 100_000, Rounds: 5}, Quick: rig.Size{Nodes: 500, Tasks: 5000, Rounds: 3}, Run: runWaiting},
		{Name: "wake", About: "tasks a second that waited among ten times as many, each for a resource that is set now",
			Full: rig.Size{Nodes: 10_000, Tasks: 100_000, Rounds: 5}, Quick: rig.Size{Nodes: 500, Tasks: 5000, Rounds: 3}, Run: runWake},
		{Name: "schedulers", About: "bind, by 1, 2 and 4 schedulers at once",
			Full: rig.Size{Nodes: 10_000, Tasks: 100_000, Rounds: 5}, Quick: rig.Size{Nodes: 500, Tasks: 5000, Rounds: 3}, Run: runSchedulers},
		{Name: "agents", About: "bind, while an agent for each node watches and renews its session",
			Full: rig.Size{Nodes: 10_000, Tasks: 100_000, Rounds: 5}, Quick: rig.Size{Nodes: 500, Tasks: 5000, Rounds: 3}, Run: runAgents},
		{Name: "connected", About: "memory of the servers for each agent that reaches the cluster by them alone, with a certificate, a watch and a tunnel; idle cost; tasks is the number of answers by tunnels",
			Full: rig.Size{Nodes: 10_000, Tasks: 1000, Rounds: 1}, Quick: rig.Size{Nodes: 300, Tasks: 1000, Rounds: 1}, Run: connected.Run},
		{Name: "submit", About: "from submitting a task to seeing it bound, idle; beside one put of etcd",
			Full: rig.Size{Nodes: 3, Tasks: 20, Rounds: 15}, Quick: rig.Size{Nodes: 3, Tasks: 10, Rounds: 3}, Run: runSubmit},
		{Name: "start", About: "from submitting a task to seeing it run; beside containerd's client", Containers: true,
			Full: rig.Size{Nodes: 1, Tasks: 1, Rounds: 15}, Quick: rig.Size{Nodes: 1, Tasks: 1, Rounds: 5}, Run: runStart},
		{Name: "tasks", About: `tasks of "true" a second, to the end; beside containerd's client`, Containers: true,
			Full: rig.Size{Nodes: 3, Tasks: 500, Rounds: 15}, Quick: rig.Size{Nodes: 3, Tasks: 50, Rounds: 1}, Run: runTasks},
		{Name: "idle", About: "memory and processor time of a cluster on which nothing runs", Containers: true,
			Full: rig.Size{Nodes: 1, Tasks: 1, Rounds: 15}, Quick: rig.Size{Nodes: 1, Tasks: 1, Rounds: 5}, Run: runIdle},
		{Name: "idle-agent", About: "memory and processor time of an agent with a node of its own: alone, and with sleeping containers", Containers: true,
			Full: rig.Size{Nodes: 1, Tasks: 50, Rounds: 5}, Quick: rig.Size{Nodes: 1, Tasks: 10, Rounds: 1}, Run: runIdleAgent},
	}, slices.Concat(liveScenarios(), gang.Scenarios(), hfs.Scenarios(), migration.Scenarios(), fgd.Scenarios(), philly.Scenarios(), order.Scenarios(), cost.Scenarios(), estimate.Scenarios(), interleave.Scenarios(), wordcount.Scenarios(), oversubscribe.Scenarios(), interference.Scenarios(), alphazero.Scenarios())...)
}

// liveScenarios are about tasks and schedulers apart from binding speed.
func liveScenarios() []rig.Scenario {
	return []rig.Scenario{
		{Name: "lifecycle", About: "tasks a second from their submission to the removal of what is left of them, sustained",
			Full: rig.Size{Nodes: 200, Tasks: 2000, Rounds: 3}, Quick: rig.Size{Nodes: 50, Tasks: 500, Rounds: 1}, Run: runLifecycle},
		{Name: "latency", About: "from submitting a task to seeing it bound, at 100 tasks a second; beside one put of etcd",
			Full: rig.Size{Nodes: 10_000, Tasks: 6000, Rounds: 5}, Quick: rig.Size{Nodes: 500, Tasks: 500, Rounds: 3}, Run: runLatency},
		{Name: "setresource", About: "setting one ephemeral resource, beside one put of etcd; and a thousand in one call",
			Full: rig.Size{Nodes: 50, Tasks: 1000, Rounds: 5}, Quick: rig.Size{Nodes: 50, Tasks: 300, Rounds: 3}, Run: runSetResource},
		{Name: "labels", About: "from submitting a task that asks for 100 ephemeral resources to seeing it bound; beside one of 1",
			Full: rig.Size{Nodes: 100, Tasks: 500, Rounds: 5}, Quick: rig.Size{Nodes: 100, Tasks: 100, Rounds: 3}, Run: runLabels},
		{Name: "unrelated", About: "binding a job while 100,000 resources are there that it does not ask for; beside none",
			Full: rig.Size{Nodes: 1000, Tasks: 10_000, Rounds: 5}, Quick: rig.Size{Nodes: 100, Tasks: 1000, Rounds: 3}, Run: runUnrelated},
		{Name: "restart", About: "from the start of a scheduler to its first binding, where a million tasks are bound",
			Full: rig.Size{Nodes: 10_000, Tasks: 1_000_000, Rounds: 3}, Quick: rig.Size{Nodes: 500, Tasks: 20_000, Rounds: 2}, Run: runRestart},
		{Name: "takeover", About: "from the end of a scheduler, kill -9, to the next binding, by another one",
			Full: rig.Size{Nodes: 10_000, Tasks: 100_000, Rounds: 5}, Quick: rig.Size{Nodes: 500, Tasks: 5000, Rounds: 2}, Run: runTakeover},
		{Name: "api", About: "answers of a server about a cluster with a million tasks bound: ps, describe and why; beside the same reads from etcd; 10,000 watchers",
			Full: rig.Size{Nodes: 10_000, Tasks: 1_000_000, Rounds: 1}, Quick: rig.Size{Nodes: 500, Tasks: 20_000, Rounds: 1}, Run: runAPI},
		{Name: "memory", About: "the most memory that a scheduler has with a million tasks bound, and with as many waiting",
			Full: rig.Size{Nodes: 10_000, Tasks: 1_000_000, Rounds: 1}, Quick: rig.Size{Nodes: 500, Tasks: 20_000, Rounds: 1}, Run: runMemory},
	}
}

// Scenarios returns the names of all scenarios, with a description of each.
func Scenarios() [][2]string {
	var names [][2]string
	for _, s := range scenarios() {
		names = append(names, [2]string{s.Name, s.About})
	}
	return names
}

// chosen returns the scenarios that the configuration names.
func chosen(c rig.Config) ([]rig.Scenario, error) {
	if c.Trace != "" && c.Scenario != "" {
		return nil, types.Errorf(types.Invalid, "trace: %q is a workload to replay, and scenario %s is something else to measure: give one of them", c.Trace, c.Scenario)
	}
	if c.Trace != "" {
		return []rig.Scenario{replay.Scenario()}, nil
	}
	var names []string
	var out []rig.Scenario
	for _, s := range scenarios() {
		names = append(names, s.Name)
		if s.Name == c.Scenario || c.Scenario == allScenarios && !s.Containers {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, types.Errorf(types.Invalid, "scenario: %q is unknown: use %s or all", c.Scenario, strings.Join(names, ", "))
	}
	return out, nil
}

// Run measures the scenarios that the configuration names: see rig.Measure.
func Run(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	all, err := chosen(cfg)
	if err != nil {
		return nil, err
	}
	return rig.Measure(ctx, cfg, all...)
}
