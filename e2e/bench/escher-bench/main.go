// Command escher-bench measures Escher. escher bench starts it, from the directory that escher
// itself lies in: so the shipped binary carries no load generators, simulated containers
// or games.
package main

import (
	"os"

	"github.com/escher-sched/escher/e2e/bench"
)

func main() { os.Exit(bench.Main(os.Args[1:], os.Executable, os.Stdin, os.Stdout, os.Stderr)) }
