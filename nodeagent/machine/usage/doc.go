// Package usage samples the usage of the attempts on a node and of the machine: processors, memory,
// block devices, pressure, and devices such as GPUs. It keeps some minutes of samples in memory,
// and stores nothing. docs/usage.md has the source of each number.
package usage
