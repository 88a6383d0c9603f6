package run

import (
	"strings"

	"github.com/escher-sched/escher/types"
)

// secretsDir is the directory of the files of a secret that has no other one.
const secretsDir = "/run/secrets/"

// secretUsage is the remedy for a wrong use of a secret.
const secretUsage = "write NAME, NAME,target=/a/directory or NAME:VALUE,env=VARIABLE"

// parseSecret reads NAME[,target=DIRECTORY] or NAME:VALUE,env=VARIABLE.
func parseSecret(text string) (types.SecretUse, error) {
	wrong := func(why string) (types.SecretUse, error) {
		return types.SecretUse{}, types.Errorf(types.Invalid, "secret: %q %s: %s", types.Cut(text, types.MaxText), why, secretUsage)
	}
	what, options, _ := strings.Cut(text, ",")
	name, value, hasValue := strings.Cut(what, ":")
	use := types.SecretUse{Name: name}
	if name == "" || hasValue && value == "" {
		return wrong("has no name")
	}
	for option := range strings.SplitSeq(options, ",") {
		key, to, _ := strings.Cut(option, "=")
		switch {
		case options == "":
		case to == "" || key != "target" && key != "env":
			return wrong("has an option that is unknown or empty")
		case key == "target" && (hasValue || use.Dir != ""):
			return wrong("has one value or directory too many")
		case key == "target":
			use.Dir = to
		case !hasValue:
			return wrong("does not say which value the variable has")
		default:
			use.Env = append(use.Env, to+"="+value)
		}
	}
	if hasValue && len(use.Env) == 0 {
		return wrong("has a value, and no variable for it")
	}
	if !hasValue && use.Dir == "" {
		use.Dir = secretsDir + name
	}
	return use, nil
}
