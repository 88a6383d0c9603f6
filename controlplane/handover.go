package controlplane

// A reservation that collects capacity hands it over to its tasks in one transaction. A plan that
// the store could not take in one transaction is never started. Reservations and the scheduler
// therefore share this estimate.

// NodeCompares is the number of compares for each node that receives a task: its allocated key, its
// liveness, its identity and its cordon.
const NodeCompares = 4

// handOverBase is the number of further compares of a hand-over: reservations, their grants, and a
// reserve for late decisions.
const handOverBase = 15

// HandOverCompares returns the number of compares of a transaction that hands over capacity on a
// number of nodes. keys is the number of other keys it relies on: the namespace, pools, devices,
// and resources of applications.
func HandOverCompares(nodes, keys int) int { return handOverBase + NodeCompares*nodes + keys }
