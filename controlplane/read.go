package controlplane

import (
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Read decodes the value of a key into m and reports whether it is readable. A value that is
// undecodable or invalid is quarantined. Every reader treats the key as absent, and every compare
// as present at its revision. Readers skip such keys; an audit lists and repairs them.
func Read(kv KV, m types.Message) bool { return types.Decode(kv.Value, m) == nil }

// unreadable returns the error for a key with a quarantined value: NotFound.
func unreadable(key string) error {
	return types.Errorf(types.NotFound, "%s is unreadable, so it counts as absent: %s", key, action.RepairKey.Of(key))
}
