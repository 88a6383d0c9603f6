package file

import (
	"fmt"
	"strings"

	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types/words"
)

// inPlaceText says how many tasks of a job that stays are or were replaced, added and removed.
func inPlaceText(u *apply.InPlace, done bool) string {
	verb := func(present, past string) string {
		if done {
			return past
		}
		return present
	}
	var parts []string
	if n := len(u.Replaces); n > 0 {
		parts = append(parts, fmt.Sprintf("%s %s, %d at once, %s", verb("replaces", "replaced"), words.Count(n, "task"), u.AtOnce, u.Order))
	}
	if u.Adds != "" {
		parts = append(parts, fmt.Sprintf("%s index %s", verb("adds", "added"), u.Adds))
	}
	if n := len(u.Removes); n > 0 {
		parts = append(parts, fmt.Sprintf("%s %s", verb("removes", "removed"), strings.Join(u.Removes, ",")))
	}
	if len(parts) == 0 {
		parts = append(parts, verb("finishes an update", "finished an update"))
	}
	return strings.Join(parts, ", ")
}
