// Package replay replays a workload: the nodes and tasks of a trace, at a multiple of its speed.
package replay
