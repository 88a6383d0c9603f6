// Package room has the policies that decide which tasks give way: preemption, jobs of any size,
// and migration.
//
// Its engine is in clear.go: which tasks are evicted for others, and where these fit then.
package room
