package containerd

import (
	"os"

	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

// Wanting returns how many callers wait for a pull.
func Wanting(r *Runtime, ref string) int {
	p := r.conf.Pulls
	p.mu.Lock()
	defer p.mu.Unlock()
	users := 0
	for key, one := range p.under {
		if key.name == ref {
			users += one.users
		}
	}
	return users
}

// WriteSecrets and Refusal write secrets into a directory, and give the class of its error.
func WriteSecrets(root *os.File, d secrets.Dir, uid, gid int) error {
	return writeSecrets(root, d, uid, gid)
}

func Refusal(err error) types.Class { return refusal(err) }
