package manifest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Limits is a limit of processes: SOFT or SOFT:HARD; -1 means no limit.
type Limits string

// MarshalJSON encodes a single number as a number.
func (l Limits) MarshalJSON() ([]byte, error) { return PortRef(l).MarshalJSON() }

// UnmarshalJSON decodes text or a whole number.
func (l *Limits) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil {
		var n int64
		if err := json.Unmarshal(text, &n); err != nil {
			return types.Errorf(types.Invalid, "%s is not a limit: write a whole number, SOFT:HARD in quotes, or -1 for none", text)
		}
		s = string(text)
	}
	*l = Limits(s)
	_, _, err := types.ParseLimits(s)
	return err
}

// memory adds the memory, the secrets and the limits of processes of the document to out.
func (s *Spec) memory(out *types.Spec) {
	out.MemoryLimit, out.Shm = types.Quantity(s.MemoryLimit), types.Quantity(s.Shm)
	for _, f := range s.Tmpfs {
		out.Tmpfs = append(out.Tmpfs, types.Tmpfs{Target: f.Target, Size: types.Quantity(f.Size)})
	}
	for _, x := range s.Secrets {
		use := types.SecretUse{Name: x.Name, Dir: x.Dir}
		for _, variable := range slices.Sorted(maps.Keys(x.Env)) {
			use.Env = append(use.Env, variable+"="+x.Env[variable])
		}
		out.Secrets = append(out.Secrets, use)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Ulimits)) {
		soft, hard, _ := types.ParseLimits(string(s.Ulimits[name])) // decoding checked it
		out.Ulimits = append(out.Ulimits, types.Ulimit{Name: name, Soft: soft, Hard: hard})
	}
}

// fromMemory is the inverse of memory.
func (s *Spec) fromMemory(from *types.Spec) {
	s.MemoryLimit, s.Shm = Size(from.MemoryLimit), Size(from.Shm)
	for _, f := range from.Tmpfs {
		s.Tmpfs = append(s.Tmpfs, Tmpfs{Target: f.Target, Size: Size(f.Size)})
	}
	for _, use := range from.Secrets {
		x := Secret{Name: use.Name, Dir: use.Dir}
		for _, e := range use.Env {
			if x.Env == nil {
				x.Env = make(map[string]string)
			}
			variable, entry, _ := strings.Cut(e, "=")
			x.Env[variable] = entry
		}
		s.Secrets = append(s.Secrets, x)
	}
	for _, u := range from.Ulimits {
		if s.Ulimits == nil {
			s.Ulimits = make(map[string]Limits)
		}
		s.Ulimits[u.Name] = Limits(u.Limits())
	}
}
