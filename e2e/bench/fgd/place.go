package fgd

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	view "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// input is a cluster, and tasks to place on it in order of arrival.
type input struct {
	machines []workload.Machine
	requests []types.Requests
	gpus     types.Quantity // all of them, in thousandths
}

// inflation is the final requested GPU, relative to the capacity.
const inflation = 1.3

// drawInput draws the arrivals of a seed, like the simulator: all tasks of the trace, shuffled,
// then others drawn from it, up to the request limit. The cluster is an even sample of the nodes.
func drawInput(machines []workload.Machine, tasks []workload.Work, nodes int, seed uint64) *input {
	rng := rand.New(rand.NewPCG(seed, seed))
	in := &input{}
	for i := range min(nodes, len(machines)) {
		m := machines[i*len(machines)/min(nodes, len(machines))]
		in.machines, in.gpus = append(in.machines, m), in.gpus+types.Quantity(m.GPUs)*wholeGPU
	}
	tasks = slices.Clone(tasks)
	rng.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	most := types.Quantity(inflation * float64(in.gpus))
	for asked, i := types.Quantity(0), 0; ; i++ {
		if i == len(tasks) {
			tasks = append(tasks, tasks[rng.IntN(len(tasks))])
		}
		w := &tasks[i]
		if asked += types.Quantity(w.GPUs * w.GPUMilli); asked > most {
			return in
		}
		in.requests = append(in.requests, w.Requests())
	}
}

// jobID is the job of all tasks.
const jobID = "openb"

// result is the result of the arrivals, in percent of all GPU.
type result struct {
	// allocated is what tasks hold when as much was requested as exists, inFragments the GPU in
	// fragments then, and atEnd what tasks hold in the end.
	allocated, inFragments, atEnd float64
	// nodes are the nodes of the tasks; "" for one without.
	nodes []string
	// placed is the number of placed tasks.
	placed int
}

// placing places tasks by one of the policies.
type placing struct {
	state *esl.State
	mix   *place.Mix
	rooms []*esl.Room
	// kinds are the kinds of tasks on each node: see gpuKind.
	kinds map[string]map[string]bool
	place func([]view.Need) *esl.Room
}

// newPlacing begins with an empty cluster.
func newPlacing(in *input, mix *place.Mix, policy nodePolicy, seed uint64) (*placing, error) {
	v, err := in.view()
	if err != nil {
		return nil, err
	}
	p := &placing{state: &esl.State{View: v, Now: time.Unix(1, 0), Namespace: rig.Namespace, Job: jobID}, mix: mix, kinds: make(map[string]map[string]bool)}
	p.rooms = p.state.Rooms()
	if policy.score != nil {
		p.place = place.Assign{Score: policy.score(p)}.Among(p.rooms).Place
		return p, nil
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	p.place = func(needs []view.Need) *esl.Room { return p.anywhere(rng, needs) }
	return p, nil
}

// view is the empty cluster, with all tasks waiting.
func (in *input) view() (*view.View, error) {
	v := view.New()
	put := func(key string, m types.Message) error {
		_, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: 1, ModRevision: 1}})
		return err
	}
	for x := range in.hollow().NodeItems {
		if err := put(x.Key, x.Value); err != nil {
			return nil, err
		}
	}
	for i, requests := range in.requests {
		if err := put(controlplane.TaskKey(rig.Namespace, rig.TaskName(i)), &types.Task{Job: jobID, Requests: requests}); err != nil {
			return nil, err
		}
	}
	v.Reached(1)
	return v, nil
}

// hollow is the cluster as keys.
func (in *input) hollow() *rig.Hollow {
	h := &rig.Hollow{}
	for i := range in.machines {
		h.Nodes, h.Devices = append(h.Nodes, in.machines[i].Node(1, nil)), append(h.Devices, in.machines[i].Devices(1))
	}
	return h
}

// anywhere places a task on a random node where it fits.
func (p *placing) anywhere(rng *rand.Rand, needs []view.Need) *esl.Room {
	var fits []*esl.Room
	for _, r := range p.rooms {
		if r.Fits(needs) {
			fits = append(fits, r)
		}
	}
	if len(fits) == 0 {
		return nil
	}
	r := fits[rng.IntN(len(fits))]
	r.Take(needs)
	return r
}

// run places all arrivals, one at a time; a task that does not fit on arrival is skipped.
func (p *placing) run(in *input) result {
	var out result
	var asked, allocated types.Quantity
	full := false
	for _, requests := range in.requests {
		needs := p.state.View.Needs(rig.Namespace, requests)
		gpu := gpuOf(needs)
		asked += gpu
		node := ""
		if r := p.place(needs); r != nil {
			node = r.Node.Name
			out.placed++
			allocated += gpu
			p.note(node, gpuKind(gpu))
		}
		out.nodes = append(out.nodes, node)
		if !full && asked >= in.gpus {
			full = true
			out.inFragments = in.percent(p.fragments())
		}
	}
	out.allocated, out.atEnd = in.allocated(out.nodes), in.percent(float64(allocated))
	return out
}

// note records that a task of a kind is on a node.
func (p *placing) note(node, kind string) {
	if kind == "" {
		return
	}
	if p.kinds[node] == nil {
		p.kinds[node] = make(map[string]bool)
	}
	p.kinds[node][kind] = true
}

// fragments is the GPU in fragments.
func (p *placing) fragments() float64 {
	sum := 0.0
	for _, r := range p.rooms {
		sum += p.mix.Fragments(r)
	}
	return sum
}

func (in *input) percent(gpu float64) float64 { return 100 * gpu / float64(in.gpus) }

// allocated is the percentage of all GPU that tasks hold when as much was requested as exists: the
// mean over the arrivals within one percent of that, as in the publication.
func (in *input) allocated(nodes []string) float64 {
	var asked, has types.Quantity
	sum, n := 0.0, 0.0
	for i, requests := range in.requests {
		gpu := requests.Get(string(types.GPU))
		asked += gpu
		if nodes[i] != "" {
			has += gpu
		}
		if math.RoundToEven(in.percent(float64(asked))) == 100 {
			sum, n = sum+in.percent(float64(has)), n+1
		}
	}
	return sum / max(n, 1)
}

// freeDevices is the free amount of each device, the least first.
func freeDevices(r *esl.Room) []types.Quantity {
	var free []types.Quantity
	for _, s := range r.Slots(types.GPU, nil) {
		free = append(free, s.Free())
	}
	slices.Sort(free)
	return free
}
