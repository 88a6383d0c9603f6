package controlplane

import (
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Read decodes the value of a key into m and reports whether it is readable. A value that
// cannot be decoded, or is not valid, is quarantined: the key counts as absent for every
// reader, and as present, of its revision, in every compare. A reader leaves it out and
// goes on; an audit lists such keys and repairs them.
func Read(kv KV, m types.Message) bool { return types.Decode(kv.Value, m) == nil }

// unreadable is the error about one key whose value is quarantined: NotFound.
func unreadable(key string) error {
	return types.Errorf(types.NotFound, "%s cannot be read, so it counts as absent: %s", key, action.RepairKey.Of(key))
}
