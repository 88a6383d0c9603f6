// Package room has the policies that decide which tasks give way: preemption, jobs of any size,
// migration and aging.
package room
