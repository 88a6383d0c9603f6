// Package secrets turns the values of secrets into variables and files of a container. It is pure.
package secrets

import (
	"bytes"
	"strings"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// DirBytes is the size of a directory of files in memory: that of the largest secret, with files of whole
// pages.
const DirBytes = 1 << 20

// Values are the values of secrets: by the name of the secret, and by the name of the value.
type Values map[string]map[string][]byte

// Dir is a directory in memory with a file for each value.
type Dir struct {
	Target string
	Files  map[string][]byte
}

// Give returns the variables, as NAME=value, and the directories of the uses of secrets. NotFound: a value
// is missing. Invalid: no program takes a value, or takes so many.
func Give(uses []types.SecretUse, values Values) (env []string, dirs []Dir, err error) {
	size := 0
	for _, u := range uses {
		has := values[u.Name]
		if has == nil {
			return nil, nil, types.Errorf(types.NotFound, "find secret %s: the server has sent none of that name: %s", u.Name, action.SetSecret.Of(u.Name))
		}
		for _, e := range u.Env {
			variable, entry, _ := strings.Cut(e, "=")
			value, ok := has[entry]
			switch {
			case !ok:
				return nil, nil, types.Errorf(types.NotFound, "find secret %s: it lacks the value %s: %s", u.Name, entry, action.SetSecret.Of(u.Name))
			case bytes.IndexByte(value, 0) >= 0:
				return nil, nil, types.Errorf(types.Invalid, "secret %s: value %s has a zero byte, which no variable holds: use dir instead of env", u.Name, entry)
			}
			env = append(env, variable+"="+string(value))
			size += len(variable) + len(value) + len("=") + 1
		}
		if u.Dir != "" {
			for entry := range has {
				if err := types.ValidateName("secret "+u.Name, entry); err != nil { // it becomes the name of a file
					return nil, nil, err
				}
			}
			dirs = append(dirs, Dir{Target: u.Dir, Files: has})
		}
	}
	if size > types.MaxWords {
		return nil, nil, types.Errorf(types.Invalid, "secrets: the variables have %d bytes: at most %d are allowed, use dir instead of env", size, types.MaxWords)
	}
	return env, dirs, nil
}
