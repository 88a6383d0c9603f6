// Package types says what things are in a cluster: nodes, resources, tasks,
// reservations and what is recorded of them, the quantities and request vectors
// that matching is about, which changes of state are legal, and how each is
// encoded. It is plain data: no I/O, no clock, nothing of Escher imported.
package types
