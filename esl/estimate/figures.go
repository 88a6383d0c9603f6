package estimate

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/history"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// The engine of this package: how figures are read, and what follows from them.

const (
	// leastMemory and leastCPU are the least estimates.
	leastMemory types.Quantity = 16 << 20
	leastCPU    types.Quantity = 10
	// defaultPart is the part of the past runs for which the estimate of a resource is enough.
	defaultPart = "p99"
	// growth is what a task requests after it used up its memory, in parts of what it used.
	growth = 1.25
)

// parse reads the value of the flag.
func parse(text string) (esl.Parameters, error) {
	p := make(esl.Parameters)
	for one := range strings.SplitSeq(text, ",") {
		name, part, _ := strings.Cut(one, "=")
		if _, twice := p[name]; twice || name != "memory" && name != "cpu" {
			return nil, esl.Invalid("estimate: %q is neither memory nor cpu, or is there twice: write memory, cpu, or memory=p99,cpu=p95", one)
		}
		p[name] = cmp.Or(part, defaultPart)
	}
	return p, nil
}

// estimated returns the estimate of a resource: the part of the past runs, such as p99, and a margin; 0 if there
// are less than some runs, or part is empty.
func estimated(h *types.History, id types.ResourceID, part, margin string, runs int) types.Quantity {
	if h == nil || part == "" {
		return 0
	}
	used, least := h.Memory, leastMemory
	if id == types.CPU {
		used, least = h.CPU, leastCPU
	}
	// One that runs once a week reaches its number, too: it counts half each time.
	if h.Runs < int64(runs) || len(used) == 0 {
		return 0
	}
	q, _ := quantile("", part)
	added, _ := percent(margin)
	return max(least, more(history.Quantile(used, q), 1+added))
}

// quantile parses p0 to p100.
func quantile(field, text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimPrefix(text, "p"), 64)
	if err != nil || !strings.HasPrefix(text, "p") || !(n >= 0 && n <= 100) {
		return 0, esl.Invalid("%s: %q is not a quantile: write p50 to p100, such as p99", field, text)
	}
	return n / 100, nil
}

// percent parses 0% to 1000%.
func percent(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil || !strings.HasSuffix(text, "%") || !(n >= 0 && n <= 1000) {
		return 0, esl.Invalid("margin: %q is not a percentage from 0%% to 1000%%: write it like 15%%", text)
	}
	return n / 100, nil
}

// more returns an amount times a factor; of memory, in whole MiB.
func more(amount types.Quantity, factor float64) types.Quantity {
	q := math.Ceil(float64(amount) * factor)
	if amount > leastMemory {
		q = math.Ceil(q/(1<<20)) * (1 << 20)
	}
	return min(types.Quantity(q), types.MaxQuantity)
}

// allowed returns an estimate within what a task declares besides; 0 if it requests none of the resource,
// or if its file systems in memory would not fit.
func allowed(s *controlplane.Submission, id types.ResourceID, q types.Quantity) types.Quantity {
	if s.Task.Requests.Get(string(id)) == 0 {
		return 0
	}
	if spec := s.Spec; spec != nil && id == types.Memory {
		if spec.MemoryLimit > 0 {
			q = min(q, spec.MemoryLimit)
		}
		if spec.FitsMemory(q) != nil {
			return 0
		}
	}
	return q
}

// with returns requests with another amount of a resource.
func with(r types.Requests, name string, amount types.Quantity) types.Requests {
	amounts := map[string]types.Quantity{name: amount}
	for _, one := range r {
		if one.Name != name {
			amounts[one.Name] = one.Amount
		}
	}
	return types.NewRequests(amounts)
}

// Grown returns what a task requests that has used up so much memory.
func Grown(used types.Quantity) types.Quantity { return more(used, growth) }

// grown returns the memory that a waiting task is to request; 0 if that does not change. Memory that its
// reservation holds does not grow.
func grown(t *cluster.Task) types.Quantity {
	s := t.Status.V
	if t.Info.V == nil || s == nil || !taskset.IsWaiting(t) || s.Cause != types.CauseMemory {
		return 0
	}
	want, has := Grown(s.Used.Memory), t.Info.V.Requests.Get(string(types.Memory))
	if has == 0 || want <= has {
		return 0
	}
	return want
}

// since says that a request has grown; empty if it has not.
func since(t *cluster.Task, id types.ResourceID) string {
	if s := t.Status.V; id != types.Memory || s == nil || s.Failures == 0 || s.Cause != types.CauseMemory {
		return ""
	}
	return ", and more since it used up its memory"
}

func runs(h *types.History) int64 {
	if h == nil {
		return 0
	}
	return h.Runs
}
