package controlplane

// Who makes room somewhere, and hands it over to others, does so in one transaction: it is not
// to be made where the store does not take that. Who reserves it, and the scheduler, reckon
// alike.

// NodeCompares is how many compares a node costs that somebody gets room on: what is in use
// there, if it is alive and the same, and if it is cordoned.
const NodeCompares = 4

// handOverBase is how many a hand-over takes besides, of reservations and their grants, and
// what a transaction leaves free for what is decided on last.
const handOverBase = 15

// HandOverCompares returns how many compares the transaction takes that hands over room on so
// many nodes, which relies on so many keys besides: the namespace, pools, devices, and what
// applications have made.
func HandOverCompares(nodes, keys int) int { return handOverBase + NodeCompares*nodes + keys }
