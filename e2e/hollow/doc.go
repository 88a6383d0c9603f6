// Package hollow is a cluster within the process, for tests, examples and experiments. Its
// schedulers, collector, drainer, policy runner and node agents are the real ones. The store is in
// memory, or a given one, and the processes of tasks are simulated. It works in real time, and in a
// bubble of testing/synctest.
package hollow
