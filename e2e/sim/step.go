package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Step is one event: its kind, and two numbers for its object and details. They are taken modulo
// what exists, so that every step means something, or nothing, in every state.
type Step struct {
	Kind Kind
	A, B uint32
}

// Kind is the kind of a step.
type Kind uint8

// The kinds of steps.
const (
	Tick Kind = iota
	Submit
	Reserve
	Unreserve
	SetResource
	StopTask
	EvictTask
	Cordon
	ChangeNode
	ChangeNamespace
	Collect
	Deliver
	Decide
	Commit
	Answer
	Late
	CrashScheduler
	Compact
	AgentWatch
	AgentWork
	AgentCrash
	NodeLost
	NodeBack
	Drain
	DrainLook
	DeclareDead
	SubmitOwned
	EndSession
	CollectorList
	CollectorLook
	CollectorCrash
	DirectorLook
	DirectorCrash
	kinds // number of kinds
)

// table gives each kind its name and its frequency.
func table() [kinds]struct {
	name   string
	weight int
} {
	return [kinds]struct {
		name   string
		weight int
	}{
		Tick:            {"tick", 20},
		Submit:          {"submit", 30},
		Reserve:         {"reserve", 3},
		Unreserve:       {"unreserve", 3},
		SetResource:     {"set-resource", 9},
		StopTask:        {"stop", 6},
		EvictTask:       {"evict", 10},
		Cordon:          {"cordon", 4},
		ChangeNode:      {"change-node", 3},
		ChangeNamespace: {"change-namespace", 1},
		Collect:         {"collect", 10},
		Deliver:         {"deliver", 130},
		Decide:          {"decide", 130},
		Commit:          {"commit", 170},
		Answer:          {"answer", 170},
		Late:            {"late", 20},
		CrashScheduler:  {"crash-scheduler", 3},
		Compact:         {"compact", 6},
		AgentWatch:      {"agent-watch", 120},
		AgentWork:       {"agent-work", 220},
		AgentCrash:      {"agent-crash", 3},
		NodeLost:        {"node-lost", 5},
		NodeBack:        {"node-back", 24},
		Drain:           {"drain", 3},
		DrainLook:       {"drain-look", 20},
		DeclareDead:     {"declare-dead", 6},
		SubmitOwned:     {"submit-owned", 5},
		EndSession:      {"end-session", 2},
		CollectorList:   {"collector-list", 60},
		CollectorLook:   {"collector-look", 20},
		CollectorCrash:  {"collector-crash", 1},
		DirectorLook:    {"director-look", 40},
		DirectorCrash:   {"director-crash", 1},
	}
}

// String writes the step in the format of ParseScript.
func (s Step) String() string {
	return fmt.Sprintf("%s %d %d", table()[s.Kind].name, s.A, s.B)
}

// ParseScript reads steps as they are printed, one per line; it ignores empty lines and text after
// a "#".
func ParseScript(text string) ([]Step, error) {
	names := make(map[string]Kind)
	for k, x := range table() {
		names[x.name] = Kind(k)
	}
	var out []Step
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		var name string
		var s Step
		if _, err := fmt.Sscanf(line, "%s %d %d", &name, &s.A, &s.B); err != nil {
			return nil, fmt.Errorf("read step %q: %w", line, err)
		}
		kind, ok := names[name]
		if !ok {
			return nil, fmt.Errorf("read step %q: there is no kind %q", line, name)
		}
		s.Kind = kind
		out = append(out, s)
	}
	return out, nil
}

// Steps returns the n steps of a seed.
func Steps(seed uint64, n int) []Step {
	rng := rand.New(rand.NewPCG(seed, 1))
	all, sum := table(), 0
	for _, x := range all {
		sum += x.weight
	}
	out := make([]Step, n)
	for i := range out {
		at := rng.IntN(sum)
		for k, x := range all {
			if at -= x.weight; at < 0 {
				out[i] = Step{Kind(k), rng.Uint32(), rng.Uint32()}
				break
			}
		}
	}
	return out
}

// rng returns the step's own randomness, so that leaving out other steps does not change it.
func (s Step) rng() *rand.Rand { return rand.New(rand.NewPCG(uint64(s.A), uint64(s.B))) }
