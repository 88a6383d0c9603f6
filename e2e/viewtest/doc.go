// Package viewtest fills views of a cluster, for tests and benchmarks of single policies.
package viewtest
