// Command escher-bench measures Escher. escher bench starts it from the directory of the escher
// binary, so that this binary contains no load generators, simulated containers or games.
package main

import (
	"os"

	"github.com/escher-sched/escher/e2e/bench"
)

func main() { os.Exit(bench.Main(os.Args[1:], os.Executable, os.Stdin, os.Stdout, os.Stderr)) }
