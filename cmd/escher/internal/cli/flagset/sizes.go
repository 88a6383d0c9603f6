package flagset

import (
	"path"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// parseTmpfs reads PATH[:size=SIZE].
func parseTmpfs(text string) (types.Tmpfs, error) {
	target, options, given := strings.Cut(text, ":")
	out := types.Tmpfs{Target: target}
	if path.IsAbs(target) {
		out.Target = path.Clean(target)
	}
	if !given {
		return out, nil
	}
	for option := range strings.SplitSeq(options, ",") {
		size, ok := strings.CutPrefix(option, "size=")
		if !ok {
			return out, types.Errorf(types.Invalid, "tmpfs: %q is unknown: write PATH or PATH:size=64Mi", types.Cut(option, 40))
		}
		bytes, err := types.ParseSize(dockerSize(size))
		if err != nil {
			return out, types.Errorf(types.Invalid, "tmpfs: %w", err)
		}
		out.Size = types.Quantity(bytes)
	}
	return out, nil
}

// parseShm reads the size of a shared memory.
func parseShm(text string) (types.Quantity, error) {
	bytes, err := types.ParseSize(dockerSize(text))
	if err != nil {
		return 0, types.Errorf(types.Invalid, "shm-size: %w", err)
	}
	return types.Quantity(bytes), nil
}

// dockerSize translates docker's suffixes b, m and g, which no quantity of bytes has.
func dockerSize(text string) string {
	for docker, ours := range map[string]string{"b": "B", "m": "Mi", "g": "Gi"} {
		if number, ok := strings.CutSuffix(text, docker); ok && number != "" && strings.ContainsAny(number[len(number)-1:], "0123456789.") {
			return number + ours
		}
	}
	return text
}

// parseUlimit reads NAME=SOFT[:HARD].
func parseUlimit(text string) (types.Ulimit, error) {
	name, values, found := strings.Cut(text, "=")
	if !found {
		return types.Ulimit{}, types.Errorf(types.Invalid, "ulimit: %q has no limit: write NAME=SOFT or NAME=SOFT:HARD, such as memlock=-1", types.Cut(text, 40))
	}
	soft, hard, err := types.ParseLimits(values)
	if err != nil {
		return types.Ulimit{}, types.Errorf(types.Invalid, "ulimit: %s: %w", types.Cut(name, 40), err)
	}
	u := types.Ulimit{Name: name, Soft: soft, Hard: hard}
	return u, u.Validate("ulimit")
}

// parseCapability returns the name of a capability in the form of a spec: NET_ADMIN for NET_ADMIN,
// net_admin or CAP_NET_ADMIN. field names it in errors. Invalid: there is no such capability.
func parseCapability(field, text string) (string, error) {
	name := strings.TrimPrefix(strings.ToUpper(text), "CAP_")
	if name != types.AllCapabilities && !slices.Contains(types.Capabilities(), name) {
		return "", types.Errorf(types.Invalid, "%s: %q is not a capability: write a name of capabilities(7), such as NET_BIND_SERVICE", field, types.Cut(text, 40))
	}
	return name, nil
}
