// Command escher is all of Escher: the development cluster, and the command line of users. It only
// starts package cli.
package main

import (
	"os"

	"github.com/escher-sched/escher/cmd/escher/internal/cli"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

func main() { os.Exit(cli.Main(os.Args[1:], cmdutil.System())) }
