// Package types defines the objects of a cluster: nodes, resources, tasks, reservations and their
// records. It defines the quantities and request vectors of matching, the legal state changes, and
// the encoding of each object. It is plain data: no I/O, no clock, no import of another Escher
// package.
package types
