// Package interleave measures how much jobs gain that share devices by phase: it submits generated
// trainings to the real scheduler and policies on hollow nodes with simulated devices, in virtual time,
// and compares a device for each job, two on a device without a rotation, and the policy interleave.
//
// A simulated device divides itself evenly among the jobs that are in the same phase, at no cost of
// switching. That favors sharing without a rotation.
package interleave
