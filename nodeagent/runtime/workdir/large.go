package workdir

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/escher-sched/escher/types"
)

// named is how many of the largest entries an error names.
const named = 3

// amount is the size of a directory or file.
type amount struct {
	path    string
	bytes   int64
	entries int
}

// tooLarge returns the error for a directory that is too large. It names where the most is.
func (t *Tree) tooLarge(maxEntries int) error {
	what, limit := humanize.IBytes(uint64(t.Bytes)), humanize.IBytes(types.MaxWorkdirBytes)
	more := func(a, b amount) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.path, b.path)) }
	told := func(a amount) string { return fmt.Sprintf("%s (%s)", a.path, humanize.IBytes(uint64(a.bytes))) }
	if t.Bytes <= types.MaxWorkdirBytes {
		what, limit = fmt.Sprintf("more than %d files", maxEntries), strconv.Itoa(maxEntries)
		more = func(a, b amount) int { return cmp.Or(cmp.Compare(b.entries, a.entries), cmp.Compare(a.path, b.path)) }
		told = func(a amount) string { return fmt.Sprintf("%s (%d files)", a.path, a.entries) }
	}
	var texts []string
	for _, a := range t.largest(more) {
		texts = append(texts, told(a))
	}
	return types.Errorf(types.Invalid, "workdir: %s has %s: at most %s are sent; the largest parts are %s: name what the task does not need in %s, and put large data on a mount",
		t.dir, what, limit, strings.Join(texts, ", "), ignoreFile)
}

// largest returns the largest entries of the directory. It goes into a directory for as long as one
// entry there has most of it.
func (t *Tree) largest(more func(a, b amount) int) []amount {
	sums := make(map[string]*amount)
	below := make(map[string]map[string]bool)
	for i := range t.entries {
		e := &t.entries[i]
		for p := e.path; p != "."; p = path.Dir(p) {
			if sums[p] == nil {
				sums[p] = &amount{path: p}
			}
			sums[p].bytes += e.size
			sums[p].entries++
			dir := path.Dir(p)
			if below[dir] == nil {
				below[dir] = make(map[string]bool)
			}
			below[dir][p] = true
		}
	}
	in := func(dir string) []amount {
		var all []amount
		for p := range maps.Keys(below[dir]) {
			all = append(all, *sums[p])
		}
		slices.SortFunc(all, more)
		return all
	}
	top := in(".")
	top = top[:min(named, len(top))]
	for i := range top {
		for {
			inner := in(top[i].path)
			if len(inner) == 0 {
				break
			}
			half := top[i]
			half.bytes, half.entries = half.bytes/2, half.entries/2
			if more(inner[0], half) > 0 {
				break
			}
			top[i] = inner[0]
		}
	}
	return top
}
