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
	if len(name) > types.MaxName-idSuffix-1 {
		name = strings.TrimRight(name[:types.MaxName-idSuffix-1], "-_.")
	}
	if name == "" {
		name = "task"
	}
	return name + "-" + strings.ToLower(rand.Text()[:idSuffix])
}
