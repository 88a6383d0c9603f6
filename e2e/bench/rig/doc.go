// Package rig has what all scenarios of escher bench stand on: the clusters they measure, and the
// results.
//
// A measurement has its own cluster: etcd and schedulers are separate processes (see role.go), and
// this process is the load and the watchers. A scenario compares measurements, its arms, that take
// turns round by round, and reports rows of medians.
package rig
