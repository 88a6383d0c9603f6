package gateway

import (
	"bytes"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
)

// span is a key, or all keys below the first segments of a kind, or all keys.
type span struct {
	// key is a single key; its zero value means a range.
	key controlplane.Key
	// kind and segments are those that all keys of the range begin with; no kind means all kinds.
	kind     controlplane.Kind
	segments []string
}

// single reports whether the span is one key.
func (s span) single() bool { return s.key.Kind != "" }

// parseSpan returns the narrowest span that contains a range of etcd. ok is false if the range holds
// more than the keys of Escher.
func parseSpan(from, end []byte) (s span, ok bool) {
	if len(end) == 0 {
		s.key, ok = controlplane.Parse(string(from))
		s.kind = s.key.Kind
		return s, ok
	}
	start := string(from)
	for i := strings.LastIndexByte(start, '/'); i >= len(controlplane.Root)-1; i = strings.LastIndexByte(start[:i], '/') {
		prefix := start[:i+1]
		if end := string(end); end > etcdstore.PrefixEnd(prefix) || end <= prefix {
			continue // it holds the end of no range within prefix
		}
		below, ok := strings.CutPrefix(prefix, controlplane.Root)
		if !ok {
			return span{}, false
		}
		kind, rest, _ := strings.Cut(below, "/")
		s.kind = controlplane.Kind(kind)
		if rest = strings.TrimSuffix(rest, "/"); rest != "" {
			s.segments = strings.Split(rest, "/")
		}
		return s, true
	}
	return span{}, false
}

// kindOf returns the kind of a key of Escher; empty for others.
func kindOf(key []byte) controlplane.Kind {
	below, _ := bytes.CutPrefix(key, []byte(controlplane.Root))
	kind, _, _ := bytes.Cut(below, []byte("/"))
	return controlplane.Kind(kind)
}

// where returns the namespace of all keys of the span, and their node; empty if they may differ.
func (s span) where() (ns, node string) {
	if s.single() {
		return s.key.Namespace, s.key.Node
	}
	at := func(i int) string {
		if i < len(s.segments) {
			return s.segments[i]
		}
		return ""
	}
	switch s.kind {
	case controlplane.Bindings, controlplane.Reports:
		return at(1), at(0)
	case controlplane.Nodes, controlplane.Devices, controlplane.Alive, controlplane.Tokens, controlplane.Cordons, controlplane.Rights, controlplane.Credentials,
		controlplane.Schedulers, controlplane.Leaders, controlplane.System:
		return "", at(0)
	case controlplane.Allocated:
		if at(0) == "*" {
			return at(1), ""
		}
		return "", at(0)
	}
	return at(0), ""
}
