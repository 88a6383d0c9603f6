// Package faults runs a whole cluster of real components while everything around them
// fails: schedulers, agents, the collector, the drainer, the controllers of policies and
// clients, on the store in memory and on simulated containers, in the virtual time of
// testing/synctest.
//
// A seed decides the workload and the faults. Each component draws its faults from a
// generator of its own, call by call. The order of goroutines within one virtual moment is
// not part of the seed, so a seed that failed usually fails again, but not always. A
// failing seed prints its history.
package faults
