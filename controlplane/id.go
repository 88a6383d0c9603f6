package controlplane

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// idSuffix is how many random letters make an id unique: 50 bits, base32.
const idSuffix = 10

// NewID returns an id that was never used: the name, shortened to fit, and random
// letters and digits. The name may be empty.
func NewID(name string) string { return idStem(name) + idTag() }

func idTag() string { return strings.ToLower(rand.Text()[:idSuffix]) }

// idStem is what the ids that are made of a name begin with, and maybe others: those
// made of web-api begin as those made of web do.
func idStem(name string) string {
	if len(name) > types.MaxName-idSuffix-1 {
		name = strings.TrimRight(name[:types.MaxName-idSuffix-1], "-_.")
	}
	if name == "" {
		name = "task"
	}
	return name + "-"
}

// madeOf reports whether what follows the stem of a name in an id is all that was added
// to the name: no hyphen is in it. If there is one, the id was made of a longer name,
// provided that it was made here.
func madeOf(rest string) bool {
	i := strings.LastIndexByte(rest, '-')
	return i <= 0 || !isTag(rest[i+1:])
}

// MadeOf reports whether an id was made of a name, or chosen to look so.
func MadeOf(id, name string) bool {
	rest, ok := strings.CutPrefix(id, idStem(name))
	return ok && madeOf(rest)
}

// isTag reports whether this is what is added to a name, with or without a number.
func isTag(added string) bool {
	if len(added) <= idSuffix {
		return len(added) == idSuffix
	}
	number, ok := strings.CutPrefix(added[idSuffix:], kinSeparator)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// kinSeparator stands before the number of a task among those of its name that were
// launched together.
const kinSeparator = "."

// kinIDs makes the ids of tasks that are launched together: those of a name share the
// letters that make them unique, and are numbered. That they are free is so one question
// about all of them: see launch.add.
type kinIDs struct {
	tag string
	// of is how many there are of each name, next how many have an id.
	of, next map[string]int
}

func newKinIDs(tasks []Submission, tag string) *kinIDs {
	k := &kinIDs{tag: tag, of: make(map[string]int), next: make(map[string]int)}
	for i := range tasks {
		if tasks[i].ID == "" {
			k.of[idStem(tasks[i].Task.Name)]++
		}
	}
	return k
}

// id returns the id of the next task of a name, and what all ids of its kin begin with,
// and no other: nothing if it is the only one.
func (k *kinIDs) id(name string) (id, kin string) {
	stem := idStem(name)
	width := len(strconv.Itoa(k.of[stem] - 1))
	kin = stem + k.tag + kinSeparator
	if k.of[stem] == 1 || len(kin)+width > types.MaxName {
		return NewID(name), ""
	}
	n := k.next[stem]
	k.next[stem]++
	return kin + fmt.Sprintf("%0*d", width, n), kin
}
