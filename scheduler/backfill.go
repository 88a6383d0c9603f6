package scheduler

import (
	"github.com/escher-sched/escher/types"
)

// Backfill (Lifka 1995, EASY): the known ends of tasks bound when the accumulating reservation is
// complete. A task that ends before then may use the capacity collected so far: see useCollected.

// lendable is the resource on which a backfill task waits besides those it lacks. It stands for a
// change of the collected capacity, or of the known ends of other tasks.
const lendable types.ResourceID = "<"
