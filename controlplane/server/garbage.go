package server

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A process with the state of a cluster holds from a few megabytes to a gigabyte, and its rate of
// garbage does not depend on that. Go collects when there is as much garbage as live memory. With
// little live memory that is many times a second, and with much it doubles the memory.

// slack is the garbage allowed on top of 0.3 of the live memory, unless it exceeds four times the
// live memory.
const slack = 512 << 20

// garbagePercent returns the garbage allowed for so many live bytes, in percent of them. It is
// bounded, because live memory may grow much before it is computed again after the next collection.
func garbagePercent(live uint64) int {
	return int(30 + slack*100/max(live, slack/4))
}

// CollectGarbage limits the garbage of the process to 0.3 of the live memory, plus 512 MiB or four
// times the live memory, until ctx is done. GOGC and GOMEMLIMIT take precedence.
func CollectGarbage(ctx context.Context) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		<-ctx.Done()
		return ctx.Err()
	}
	set := garbagePercent(0)
	before := debug.SetGCPercent(set)
	defer debug.SetGCPercent(before)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	collected := make(chan struct{}, 1)
	for {
		tellCollected(collected)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-collected:
		}
		metrics.Read(live)
		percent := garbagePercent(live[0].Value.Uint64())
		// Setting it stops the process for a moment.
		if d := percent - set; d > set/10 || -d > set/10 {
			debug.SetGCPercent(percent)
			set = percent
		}
	}
}

// tellCollected sends to collected at the end of the next collection.
func tellCollected(collected chan<- struct{}) {
	// The object is dropped at once. It has a pointer, because pointer-free objects may be kept
	// with others.
	runtime.AddCleanup(new(*byte), func(collected chan<- struct{}) {
		select {
		case collected <- struct{}{}:
		default:
		}
	}, collected)
}
