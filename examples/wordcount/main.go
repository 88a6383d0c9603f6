// Command wordcount counts the words of a text with MapReduce, where the data is: the
// third of the paper's compositions, for two lines of policy.
//
// The text is cut into chunks, which are stored in the nodes' own directories. What
// stores a chunk announces it, by a resource on its node; what maps a chunk requests
// that resource, and so runs where it can read it from its own disk. Beside it, the
// same is done with mappers placed at random, which fetch from other nodes what they
// do not have. The counts must equal those of coreutils.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const (
	// textDir, dataDir and outDir are where a task sees the text, the directory of its
	// node, and what all of them share: results and addresses.
	textDir, dataDir, outDir = "/text", "/data", "/out"
	// chunks and reducers are into how many parts text and words are split.
	chunks, reducers = 24, 6
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var at places
	flag.StringVar(&at.text, "text", "", "the text to count")
	flag.StringVar(&at.work, "work", "", "an empty directory that the nodes allow to be mounted")
	flag.Parse()
	err := as(ctx, flag.Args())
	if flag.NArg() == 0 {
		err = compare(ctx, at)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

// places are directories of the machine.
type places struct{ text, work string }

// as does the part of one task.
func as(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return nil
	}
	switch part, args := args[0], args[1:]; part {
	case "load":
		return load(ctx, args[0], args[1], args[2], args[3])
	case "serve":
		return serve(ctx)
	case "map":
		return mapChunk(ctx, args[0], args[1])
	case "reduce":
		return reduce(ctx, args[0], args[1])
	default:
		return fmt.Errorf("part %q is unknown: use load, serve, map or reduce", part)
	}
}
