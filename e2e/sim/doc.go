// Package sim runs a whole cluster in one goroutine: schedulers that race, agents,
// applications and administrators on a store in memory, with every message between
// them delayed, lost, repeated or overtaken as a seed decides. There is no clock and
// nothing concurrent, so that a seed is a run: what failed once fails again.
//
// A run is a list of steps. Each step is three numbers that mean something in any
// state, so that a failing run can be made shorter by leaving steps out, and printed
// as a script that runs again.
//
// Every revision of the store is given to the validators of package audit, and no
// task may ever run twice at once. After the steps the faults stop and the run has to
// come to rest: what waits then fits nowhere, every scheduler knows exactly what is
// stored, and when all that runs has ended nothing is left behind.
package sim
