// Package audit checks the invariants of a cluster from its keys, with one validator for each named
// guarantee. It derives held amounts and capacities with code of its own, so that it does not
// repeat a scheduler's mistakes.
//
// A Checker receives every revision of a cluster and checks what the revision touched. It can also
// check all keys at one revision. Run and Follow do so for a live cluster, package audittest in
// tests.
//
// CheckExecutions checks what no key shows: the logs of the processes that nodes ran.
//
// There are two kinds of validators. Validators of the state check what holds at every revision,
// and find the same in a listing as in the history. Validators of changes need the state before: in
// a listing they only find what unchanged keys prove.
package audit
