// Command wordcount counts the words of a text with MapReduce, where the data is: the third of the
// paper's compositions, in two lines of policy.
//
// The text is cut into chunks, which are stored in the nodes' own directories. The task that stores
// a chunk announces it, by a resource on its node. The task that maps a chunk requests that
// resource, and so runs where it can read the chunk from its own disk. A second run places mappers
// at random, and they fetch missing chunks from other nodes. The counts must equal those of
// coreutils.
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
	// textDir, dataDir and outDir are where a task sees the text, the directory of its node, and
	// that of all tasks: results and addresses.
	textDir, dataDir, outDir = "/text", "/data", "/out"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var at places
	flag.StringVar(&at.text, "text", "", "the text to count")
	flag.StringVar(&at.work, "work", "", "an empty directory that the nodes allow to be mounted")
	flag.IntVar(&at.chunks, "chunks", 24, "into how many parts the text is split")
	flag.IntVar(&at.reducers, "reducers", 6, "into how many parts the words are split")
	pairs := flag.Int("pairs", 0, "count so often by turns beside a node that is named, and print times as JSON lines")
	flag.Parse()
	err := as(ctx, flag.Args())
	switch {
	case flag.NArg() > 0:
	case *pairs > 0:
		err = comparePairs(ctx, at, *pairs)
	default:
		err = compare(ctx, at)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

// places are directories of the machine, and the number of parts.
type places struct {
	text, work       string
	chunks, reducers int
}

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
		return mapChunk(ctx, args[0], args[1], args[2])
	case "reduce":
		return reduce(ctx, args[0], args[1], args[2])
	default:
		return fmt.Errorf("part %q is unknown: use load, serve, map or reduce", part)
	}
}
