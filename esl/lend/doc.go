// Package lend has the policies by which tasks use what others request and leave idle. What a node
// lends is an amount of ephemeral resources there, computed from what its tasks use; guests request
// these instead of cpu and memory, and are evicted when owners want them back.
package lend
