// Package turn has the policies that raise a job above others of its priority while it waits: the longer
// it waits, the shorter it is, or the closer its deadline.
//
// They change the order in the queue alone: nothing is evicted for them, and a task that has a node has
// its own priority again.
package turn
