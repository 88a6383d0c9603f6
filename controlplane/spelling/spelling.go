// Package spelling finds the known name that a mistyped one means.
package spelling

import (
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/escher-sched/escher/types"
)

// Distance returns the edit distance between a typed name and a known one, and whether it is near
// enough to suggest the known one. It counts missing, extra and different letters and swapped
// neighbors, and ignores case. Near is a third of the letters typed, at least one of two, at most
// three.
func Distance(typed, name string) (distance int, near bool) {
	if len(typed) > types.MaxName {
		return len(typed), false // No name is that long, and the time grows with its cube.
	}
	typed, name = strings.ToLower(typed), strings.ToLower(name)
	distance = levenshtein.ComputeDistance(typed, name)
	for i := 0; i+1 < len(typed); i++ {
		swapped := typed[:i] + typed[i+1:i+2] + typed[i:i+1] + typed[i+2:]
		distance = min(distance, 1+levenshtein.ComputeDistance(swapped, name))
	}
	return distance, typed != "" && distance <= min(3, max(len(typed)/3, min(1, len(typed)/2)))
}
