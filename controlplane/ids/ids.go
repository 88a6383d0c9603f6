// Package ids makes the ids of objects: a name, and letters that no other id has.
package ids

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// idSuffix is the number of random letters that make an id unique: 50 bits in base32.
const idSuffix = 10

// New returns an id that was never used: the name, shortened to fit, and random letters and
// digits. The name may be empty.
func New(name string) string { return Stem(name) + Tag() }

// Tag returns new random letters and digits.
func Tag() string { return strings.ToLower(rand.Text()[:idSuffix]) }

// Stem returns the prefix of all ids made of a name. Ids of longer names may share it: those made
// of web-api begin like those made of web.
func Stem(name string) string {
	if len(name) > types.MaxName-idSuffix-1 {
		name = strings.TrimRight(name[:types.MaxName-idSuffix-1], "-_.")
	}
	if name == "" {
		name = "task"
	}
	return name + "-"
}

// IsTail reports whether rest, the part of an id after the stem of a name, is only a tag: it has no
// hyphen. A hyphen means that the id was made of a longer name, provided that New made it.
func IsTail(rest string) bool {
	i := strings.LastIndexByte(rest, '-')
	return i <= 0 || !isTag(rest[i+1:])
}

// MadeOf reports whether an id was made of a name, or chosen to look so.
func MadeOf(id, name string) bool {
	rest, ok := strings.CutPrefix(id, Stem(name))
	return ok && IsTail(rest)
}

// isTag reports whether added is a tag, with or without a number.
func isTag(added string) bool {
	if len(added) <= idSuffix {
		return len(added) == idSuffix
	}
	number, ok := strings.CutPrefix(added[idSuffix:], siblingSeparator)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// TagOf returns the tag at the end of an id that New made; ok is false if it has none.
func TagOf(id string) (tag string, ok bool) {
	tag = id[max(0, len(id)-idSuffix):]
	return tag, isTag(tag)
}

// siblingSeparator stands before the number of a task among the tasks of its name in one launch.
const siblingSeparator = "."

// Siblings makes the ids of tasks launched together. Tasks of one name share a tag and are
// numbered, those of an array by their indices. So one compare of a range shows that all of these
// ids are free: see Launch of package controlplane.
type Siblings struct {
	tag string
	// count is the number of tasks of each name, next the number of them that have an id.
	count, next map[string]int
	// array reports whether they are an array; last is the largest index.
	array bool
	last  int
}

// NewSiblings returns the ids of n tasks with a tag. of returns each of them, and whether it has an id.
func NewSiblings(n int, of func(i int) (t *types.Task, has bool), tag string) *Siblings {
	k := &Siblings{tag: tag, count: make(map[string]int), next: make(map[string]int), array: true}
	seen := make(map[int]bool)
	for i := range n {
		t, has := of(i)
		if !has {
			k.count[Stem(t.Name)]++
		}
		k.array = k.array && t.Count > 0 && !seen[t.Index]
		seen[t.Index], k.last = true, max(k.last, t.Index)
	}
	return k
}

// ID returns the id of the next task, and the prefix that only its siblings share. The prefix is
// empty for the only task of a name, unless it is an array.
func (k *Siblings) ID(t *types.Task) (id, siblings string) {
	stem := Stem(t.Name)
	n, last := k.next[stem], k.count[stem]-1
	if k.array {
		n, last = t.Index, k.last
	}
	width := len(strconv.Itoa(last))
	siblings = stem + k.tag + siblingSeparator
	if k.count[stem] == 1 && !k.array || len(siblings)+width > types.MaxName {
		return New(t.Name), ""
	}
	k.next[stem]++
	return siblings + fmt.Sprintf("%0*d", width, n), siblings
}
