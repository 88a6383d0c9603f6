// Package audit checks the invariants of a cluster: one validator a named
// guarantee, over the keys alone. It derives what is held and what there is by
// itself, not with the code that schedulers decide with, so that a mistake there is
// not made here too.
//
// A Checker is given every revision of a cluster and looks at what that revision
// touched; given the keys as they are at one revision, it says what is wrong with
// them. Run and Follow do so with a live cluster, package audittest in tests.
//
// CheckExecutions looks at what no key says: the logs of what nodes ran.
//
// There are two kinds of validators. Those of the state say what must hold of the
// keys at every revision, and find the same from a listing as from the history.
// Those of a change need to know what was before: from a listing they find only
// what follows from keys that have not changed since.
package audit
