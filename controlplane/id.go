package controlplane

import (
	"crypto/rand"
	"strings"

	"github.com/escher-sched/escher/types"
)

// idSuffix is how many random letters make an id unique: 50 bits, base32.
const idSuffix = 10

// NewID returns an id that was never used: the name, shortened to fit, and random
// letters and digits. The name may be empty.
func NewID(name string) string {
	return idStem(name) + strings.ToLower(rand.Text()[:idSuffix])
}

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
