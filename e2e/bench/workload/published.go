package workload

import (
	_ "embed" // for the tables
	"slices"
)

//go:embed openb/order.csv
var openbOrderTable string

//go:embed openb/default.csv
var openbDefaultTable string

// Published returns the workload of published figures: the machines of openb with devices, in
// order, and the requests of the tasks in its list "default": 1,213 and 8,152 of them.
func Published() (machines []Machine, tasks []Work, err error) {
	err = eachRow(openbOrderTable, 5, func(f []string, n []int64) {
		m := Machine{CPUMilli: n[0], MemMiB: n[1], GPUs: n[2], Model: f[3]}
		machines = append(machines, slices.Repeat([]Machine{m}, int(n[4]))...)
	})
	if err != nil {
		return nil, nil, err
	}
	err = eachRow(openbDefaultTable, 6, func(f []string, n []int64) {
		w := Work{CPUMilli: n[0], MemMiB: n[1], GPUs: n[2], GPUMilli: n[3], Models: models(f[4]), Instances: 1, Gang: 1}
		tasks = append(tasks, slices.Repeat([]Work{w}, int(n[5]))...)
	})
	return machines, tasks, err
}
