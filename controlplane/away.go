package controlplane

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Away returns in how many letters a name differs from what was typed, which are missing, too
// many, others or swapped with the next one, and whether these are so few that it may be
// meant: a third of them, one of two, three at most. Capitals are no others.
func Away(typed, name string) (away int, near bool) {
	typed, name = strings.ToLower(typed), strings.ToLower(name)
	away = levenshtein.ComputeDistance(typed, name)
	for i := 0; i+1 < len(typed); i++ {
		swapped := typed[:i] + typed[i+1:i+2] + typed[i:i+1] + typed[i+2:]
		away = min(away, 1+levenshtein.ComputeDistance(swapped, name))
	}
	return away, typed != "" && away <= min(3, max(len(typed)/3, min(1, len(typed)/2)))
}
