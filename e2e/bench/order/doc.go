// Package order measures in which order jobs begin, and what that costs them: it replays a workload
// through the real scheduler and policies on hollow nodes, in virtual time, and compares it with
// textbook disciplines, which are computed without a cluster.
//
// Jobs ask for whole devices of nodes that have eight each. A job of more than one node is a gang. The
// workloads are the busiest week of the Philly trace, with its arrivals closer together, and generated
// ones: arrivals by chance at a given load, lengths distributed log-normally, as in the traces. A file has
// other jobs, which may ask for processors and memory.
package order
