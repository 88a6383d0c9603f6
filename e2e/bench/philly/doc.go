// Package philly replays the busiest week of Microsoft's Philly cluster at a multiple of its speed.
// Jobs larger than a node are gangs; 11 tenants submit them. It compares how long jobs wait under
// each queueing policy.
package philly
