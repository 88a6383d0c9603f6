// Package sim runs a whole cluster in one goroutine: racing schedulers, agents, applications and
// administrators on a store in memory. A seed decides which messages between them are delayed,
// lost, repeated or reordered. There is no clock and no concurrency, so a seed determines a run: a
// failure repeats.
//
// A run is a list of steps. Each step is three numbers that mean something in any state. So a
// failing run can be shortened by leaving steps out, and printed as a script that runs again.
//
// The validators of package audit check every revision of the store, and no task may ever run twice
// at once. After the steps the faults stop and the run has to settle: what waits then fits nowhere,
// every scheduler knows exactly what is stored, and when everything has ended nothing is left.
package sim
