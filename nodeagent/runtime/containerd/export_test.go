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
	if one := p.under[ref]; one != nil {
		return one.users
	}
	return 0
}

// WriteSecrets and Refusal write secrets into a directory, and give the class of its error.
func WriteSecrets(root *os.File, d secrets.Dir, uid, gid int) error {
	return writeSecrets(root, d, uid, gid)
}

func Refusal(err error) types.Class { return refusal(err) }
