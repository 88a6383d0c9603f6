// Command escher is all of Escher: the development cluster, and what users say to a
// cluster. Flags in, calls, output; what it does is in the packages it calls.
package main

import (
	"os"

	"github.com/escher-sched/escher/cmd/escher/internal/cli"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

func main() { os.Exit(cli.Main(os.Args[1:], cmdutil.System())) }
