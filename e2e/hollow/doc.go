// Package hollow is a cluster within the process, for tests, examples and experiments:
// schedulers, the collector, what drains nodes, the keeper of policies and the agents of
// all nodes are the real ones; the store is one in memory, or one that is given, and the
// processes of tasks are simulated. It works in real time, and in that of a bubble of
// testing/synctest.
package hollow
