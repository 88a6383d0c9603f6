package workload

import (
	_ "embed" // for the tables
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Measured clusters are drawn from Alibaba's openb trace: its kinds of machine and its task
// requests, in their original proportions. openb/SOURCE.md names the source of the tables.

//go:embed openb/nodes.csv
var openbNodeTable string

//go:embed openb/shapes.csv
var openbShapeTable string

// The utilization of a fleet when all of its tasks are bound. Processors are the scarcest, so a
// utilization refers to them.
const (
	fullCPU    = 0.81
	fullMemory = 0.55
	fullGPU    = 0.62
	// fullModel is the share of devices that tasks may request by model: the rest is for tasks that
	// take any.
	fullModel = 0.20
)

// kind is a kind of machine, with its count.
type kind struct {
	Machine
	count int
}

// shape is a request, with its count.
type shape struct {
	Work
	count int
}

// openb returns both tables.
func openb() (kinds []kind, shapes []shape, err error) {
	err = eachRow(openbNodeTable, 5, func(f []string, n []int64) {
		kinds = append(kinds, kind{Machine{CPUMilli: n[0], MemMiB: n[1], GPUs: n[2], Model: f[3]}, int(n[4])})
	})
	if err != nil {
		return nil, nil, err
	}
	err = eachRow(openbShapeTable, 6, func(f []string, n []int64) {
		shapes = append(shapes, shape{Work{CPUMilli: n[0], MemMiB: n[1], GPUs: n[2], GPUMilli: n[3], Models: models(f[4])}, int(n[5])})
	})
	return kinds, shapes, err
}

// eachRow calls do with the fields of each row, and with their numeric values.
func eachRow(table string, fields int, do func(f []string, n []int64)) error {
	r := csv.NewReader(strings.NewReader(table))
	r.Comment, r.FieldsPerRecord = '#', fields
	for first := true; ; first = false {
		row, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return types.Errorf(types.Internal, "read the tables of openb: %w", err)
		}
		if first {
			continue
		}
		numbers := make([]int64, len(row))
		for i, text := range row {
			numbers[i], _ = strconv.ParseInt(text, 10, 64) // model names are not numbers
		}
		do(row, numbers)
	}
}

// Fleet is a cluster drawn from openb, with tasks that all fit into it and fill it.
type Fleet struct {
	// Machines are the nodes. A node is as large as Times machines of its kind, so that all tasks
	// fit.
	Machines []Machine
	Times    int64
	// Shapes are the different requests, and Tasks are the indices of the tasks' shapes.
	Shapes []types.Requests
	Tasks  []int

	// constraints are the models that some task requests.
	constraints [][]string
}

// NewFleet draws a cluster. The same arguments give the same one. Processors are utilized by
// fullCPU, memory and devices by less. With ten tasks per node or more, all of them fit, wherever
// the scheduler places the first ones.
func NewFleet(nodes, tasks int, seed uint64) (*Fleet, error) {
	kinds, shapes, err := openb()
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, uint64(nodes)))
	f := &Fleet{Machines: drawMachines(kinds, nodes, rng)}
	f.Times = f.timesFor(shapes, tasks)
	for _, s := range shapes {
		if s.Models != nil && !slices.ContainsFunc(f.constraints, func(m []string) bool { return slices.Equal(m, s.Models) }) {
			f.constraints = append(f.constraints, s.Models)
		}
	}
	f.drawTasks(shapes, tasks, rng)
	return f, nil
}

// drawMachines draws nodes in proportion to the kinds, with at least one of each if there are
// enough.
func drawMachines(kinds []kind, n int, rng *rand.Rand) []Machine {
	total := 0
	for _, k := range kinds {
		total += k.count
	}
	var out []Machine
	for _, k := range kinds {
		share := k.count * n / total
		for range max(share, min(1, n/len(kinds))) {
			out = append(out, k.Machine)
		}
	}
	for len(out) < n {
		out = append(out, kinds[pickWeighted(rng, len(kinds), total, func(i int) int { return kinds[i].count })].Machine)
	}
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	out = out[:n]
	for i := range out {
		out[i].Name = NodeName(i)
	}
	return out
}

// NodeName is the name of node i of a fleet.
func NodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// TaskName is the id of task i of a fleet.
func TaskName(i int) string { return fmt.Sprintf("task-%07d", i) }

// pickWeighted draws one of n by weight.
func pickWeighted(rng *rand.Rand, n, total int, weight func(int) int) int {
	left := rng.IntN(total)
	for i := range n {
		if left -= weight(i); left < 0 {
			return i
		}
	}
	return n - 1
}

// timesFor returns how many machines of a kind make a node, so that it has about as many devices as
// its share of the tasks requests.
func (f *Fleet) timesFor(shapes []shape, tasks int) int64 {
	var asked, drawn float64
	for _, s := range shapes {
		asked += float64(s.count) * float64(s.GPUs*s.GPUMilli) / 1000
		drawn += float64(s.count)
	}
	need := asked / drawn * float64(tasks)
	have := float64(f.total(func(m Machine) int64 { return m.GPUs }))
	return max(1, int64(math.Round(need/max(have, 1))))
}

// total sums a value over all nodes.
func (f *Fleet) total(of func(Machine) int64) (sum int64) {
	for _, m := range f.Machines {
		sum += of(m)
	}
	return sum
}

// drawTasks draws the requests of the tasks.
func (f *Fleet) drawTasks(shapes []shape, n int, rng *rand.Rand) {
	weights := 0
	for _, s := range shapes {
		weights += s.count
	}
	budget := f.newBudget()
	drawn := make([]Work, 0, n)
	for len(drawn) < n {
		w := shapes[pickWeighted(rng, len(shapes), weights, func(i int) int { return shapes[i].count })].Work
		if w, ok := budget.take(w); ok {
			drawn = append(drawn, w)
		}
	}
	scaled(drawn, f.largest(func(m Machine) int64 { return m.CPUMilli }), float64(f.Times*f.total(func(m Machine) int64 { return m.CPUMilli }))*fullCPU,
		func(w *Work) *int64 { return &w.CPUMilli })
	scaled(drawn, f.largest(func(m Machine) int64 { return m.MemMiB }), float64(f.Times*f.total(func(m Machine) int64 { return m.MemMiB }))*fullMemory,
		func(w *Work) *int64 { return &w.MemMiB })
	f.order(drawn)
	f.intern(drawn)
}

// largest bounds the request of a task, as a part of the largest node.
func (f *Fleet) largest(of func(Machine) int64) int64 {
	most := int64(0)
	for _, m := range f.Machines {
		most = max(most, of(m))
	}
	return max(1, f.Times*most/8)
}

// budget is the remaining amount of devices to request, in thousandths: of all, and of some models.
type budget struct {
	all     int64
	byModel map[string]int64
}

func (f *Fleet) newBudget() *budget {
	b := &budget{byModel: make(map[string]int64)}
	b.all = int64(float64(1000*f.Times*f.total(func(m Machine) int64 { return m.GPUs })) * fullGPU)
	for _, c := range f.constraints {
		have := f.total(func(m Machine) int64 { return m.of(c) })
		b.byModel[Constraint(c)] = int64(float64(1000*f.Times*have) * fullModel)
	}
	return b
}

// of returns how many devices of some models a machine has.
func (m *Machine) of(models []string) int64 {
	if slices.Contains(models, m.Model) {
		return m.GPUs
	}
	return 0
}

// take takes the request of a task. If a model is exhausted, the task takes any; if all devices
// are, false asks for another task.
func (b *budget) take(w Work) (Work, bool) {
	asked := w.GPUs * w.GPUMilli
	if asked > b.all {
		return w, false
	}
	b.all -= asked
	if w.Models == nil {
		return w, true
	}
	if name := Constraint(w.Models); b.byModel[name] >= asked {
		b.byModel[name] -= asked
	} else {
		w.Models = nil
	}
	return w, true
}

// scaled scales the requests of all tasks by one factor to the total, each to at most most.
func scaled(all []Work, most int64, total float64, of func(*Work) *int64) {
	amount := func(x int64, factor float64) int64 {
		if x == 0 {
			return 0
		}
		return min(most, max(1, int64(math.Round(float64(x)*factor))))
	}
	low, high := 0.0, 64.0
	for range 40 {
		mid := (low + high) / 2
		sum := int64(0)
		for i := range all {
			sum += amount(*of(&all[i]), mid)
		}
		if float64(sum) > total {
			high = mid
		} else {
			low = mid
		}
	}
	for i := range all {
		*of(&all[i]) = amount(*of(&all[i]), low)
	}
}

// order puts tasks that are hard to place first, as no capacity is kept for them: those with
// several devices, with a large part of a node, with devices of some models, with any device.
func (f *Fleet) order(all []Work) {
	most := f.largest(func(m Machine) int64 { return m.CPUMilli })
	hard := func(w Work) int {
		switch {
		case w.GPUs > 1:
			return 2 + int(w.GPUs)
		case w.CPUMilli > most/2:
			return 3
		case w.Models != nil:
			return 2
		case w.GPUs > 0:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b Work) int { return hard(b) - hard(a) })
}

// intern makes the requests of the tasks, each vector once.
func (f *Fleet) intern(all []Work) {
	known := make(map[string]int)
	for _, w := range all {
		key := fmt.Sprint(w.CPUMilli, w.MemMiB, w.GPUs, w.GPUMilli, w.Models)
		i, ok := known[key]
		if !ok {
			i = len(f.Shapes)
			known[key] = i
			f.Shapes = append(f.Shapes, w.Requests())
		}
		f.Tasks = append(f.Tasks, i)
	}
}

// Requests is the request vector of a task.
func (w *Work) Requests() types.Requests {
	all := make(map[string]types.Quantity, 4)
	set := func(name string, q types.Quantity) {
		if q > 0 {
			all[name] = q
		}
	}
	set(string(types.CPU), types.Quantity(w.CPUMilli))
	set(string(types.Memory), types.Quantity(w.MemMiB)<<20)
	devices := types.Quantity(w.GPUs * w.GPUMilli)
	set(string(types.GPU), devices)
	if w.Models != nil {
		set(Constraint(w.Models), devices)
	}
	return types.NewRequests(all)
}

// Node is node i as its agent would register it.
func (f *Fleet) Node(i int) *types.Node {
	m := f.Machines[i]
	return m.Node(f.Times, f.constraints)
}

// Node is a machine, times as large, as its agent would register it.
func (m *Machine) Node(times int64, constraints [][]string) *types.Node {
	all := map[string]types.Quantity{
		string(types.CPU): types.Quantity(times * m.CPUMilli), string(types.Memory): types.Quantity(times*m.MemMiB) << 20,
	}
	if m.GPUs > 0 {
		all[string(types.GPU)] = types.Quantity(1000 * times * m.GPUs)
	}
	for _, c := range constraints {
		if n := m.of(c); n > 0 {
			all[Constraint(c)] = types.Quantity(1000 * times * n)
		}
	}
	var labels []types.Label
	for _, l := range []types.Label{{Name: "model", Value: m.Model}, {Name: "rack", Value: m.Rack}} {
		if l.Value != "" {
			labels = append(labels, l)
		}
	}
	return &types.Node{Capacity: types.NewRequests(all), Labels: labels, Address: "http://10.0.0.1:7070", Version: "bench"}
}

// Devices are the devices of node i; nil if it has none.
func (f *Fleet) Devices(i int) *types.Devices { return f.Machines[i].Devices(f.Times) }

// Devices are the devices of a machine that is times as large; nil if it has none.
func (m *Machine) Devices(times int64) *types.Devices {
	if m.GPUs == 0 {
		return nil
	}
	out := &types.Devices{}
	for d := range times * m.GPUs {
		out.Devices = append(out.Devices, types.Device{
			ID: fmt.Sprintf("nvidia.com/gpu=%d", d), Resource: types.GPU, Model: m.Model, NUMA: int(d / 4),
		})
	}
	return out
}

// Requests is the request vector of task i.
func (f *Fleet) Requests(i int) types.Requests { return f.Shapes[f.Tasks[i]] }

// Utilisation returns the utilization of a resource on all nodes when all tasks are bound.
func (f *Fleet) Utilisation(name types.ResourceID) float64 {
	var asked, have types.Quantity
	for i := range f.Tasks {
		asked += f.Requests(i).Get(string(name))
	}
	for i := range f.Machines {
		have += f.Node(i).Capacity.Get(string(name))
	}
	if have == 0 {
		return 0
	}
	return float64(asked) / float64(have)
}
