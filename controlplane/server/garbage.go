package server

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A process that keeps the state of a cluster has from a few megabytes to a gigabyte of
// it, and makes garbage at a rate that has nothing to do with that. Go collects when
// there is as much garbage as what is in use: with little in use that is many times a
// second, and with much it takes twice the memory.

// slack is how much garbage there may be besides 0.3 of what is in use, if it is not more
// than four times that.
const slack = 512 << 20

// garbagePercent returns how much garbage there may be when so many bytes are in use,
// in percent of them. Just after a collection that is asked again; until then much more may be
// in use, so that it is never very much.
func garbagePercent(live uint64) int {
	return int(30 + slack*100/max(live, slack/4))
}

// CollectGarbage keeps the garbage of the process to 0.3 of what is in use, and 512 MiB or four times that,
// until ctx is done. Where GOGC or GOMEMLIMIT is set, that decides.
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

// tellCollected has the end of the next collection told.
func tellCollected(collected chan<- struct{}) {
	// Dropped at once; what had no pointer in it could be kept with others.
	runtime.AddCleanup(new(*byte), func(collected chan<- struct{}) {
		select {
		case collected <- struct{}{}:
		default:
		}
	}, collected)
}
