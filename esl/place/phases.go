package place

import (
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/esl"
)

const (
	// maxPhases is the most phases of a policy, and so the most tasks that share a device by phase.
	maxPhases = 4
	// maxPhaseName is the longest name of a phase: it is a part of the name of a resource.
	maxPhaseName = 16
	// longestPhase is the longest phase that a task may declare.
	longestPhase = time.Hour
)

// lengths are how long a task is in each phase of its iteration, by the index of the phase.
type lengths [maxPhases]time.Duration

// parseLengths reads data=300ms,compute=400ms. Invalid: a phase is none of names, or a time is wrong.
func parseLengths(text string, names []string) (out lengths, err error) {
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		i := slices.Index(names, name)
		if i < 0 {
			return out, esl.Invalid("as: %q is no phase: write the phases of an iteration with their lengths, %s=300ms, with commas between; there are %s", name, names[0], strings.Join(names, ", "))
		}
		length, err := time.ParseDuration(value)
		if err != nil || length <= 0 || length > longestPhase {
			return out, esl.Invalid("as: %s: %q is no length above 0 and up to %s: write it such as 300ms", name, value, longestPhase)
		}
		if out[i] != 0 {
			return out, esl.Invalid("as: %s is there twice: give each phase once", name)
		}
		out[i] = length
	}
	return out, nil
}

// sum returns the length of an iteration.
func (l lengths) sum() (all time.Duration) {
	for _, x := range l {
		all += x
	}
	return all
}

// gain returns how much work tasks do together on one device, as a multiple of what it does with one
// after the other; 0 if they cannot all be in a phase of their own, or one has no known phases. It is the
// interleaving efficiency of Muri (SIGCOMM 2022) times the number of phases.
//
// The tasks are in step: each begins in another phase, and the device turns to the next when all have
// finished theirs. An iteration of all then takes the sum of the longest phases, in the best order.
func gain(tasks []lengths, phases int) float64 {
	if len(tasks) > phases {
		return 0
	}
	var work time.Duration
	for _, l := range tasks {
		if l.sum() == 0 {
			return 0
		}
		work += l.sum()
	}
	return float64(work) / float64(shortestRound(tasks, phases, make([]int, 1, maxPhases)))
}

// shortestRound returns the shortest common iteration, when the first tasks begin in these phases.
func shortestRound(tasks []lengths, phases int, begin []int) time.Duration {
	if len(begin) == len(tasks) {
		return roundOf(tasks, phases, begin)
	}
	best := time.Duration(-1)
	for at := range phases {
		if slices.Contains(begin, at) {
			continue
		}
		if round := shortestRound(tasks, phases, append(begin, at)); best < 0 || round < best {
			best = round
		}
	}
	return best
}

// roundOf returns the common iteration of tasks that begin in different phases.
func roundOf(tasks []lengths, phases int, begin []int) (round time.Duration) {
	for turn := range phases {
		longest := time.Duration(0)
		for i, l := range tasks {
			longest = max(longest, l[(begin[i]+turn)%phases])
		}
		round += longest
	}
	return round
}
