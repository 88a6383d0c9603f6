package esltest

import (
	"strings"

	"github.com/escher-sched/escher/controlplane"
)

// Resources returns the resources of the namespace with their locations, sorted.
func (w *World) Resources() []string {
	w.t.Helper()
	prefix := controlplane.Prefix(controlplane.Resources, "d")
	kvs, _, err := controlplane.ListAll(w.t.Context(), w.Store, controlplane.ListOptions{Prefix: prefix})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, kv := range kvs {
		out = append(out, strings.TrimPrefix(kv.Key, prefix))
	}
	return out
}
