package audit

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
)

// Author is the sender of a transaction.
type Author struct {
	Writer writers.Writer
	// Node is the range of an agent, Namespace that of an application.
	Node      string
	Namespace string
}

func (a Author) String() string {
	switch a.Writer {
	case writers.Agent:
		return "agent " + a.Node
	case writers.Application:
		return "application of " + a.Namespace
	}
	return string(a.Writer)
}

// Authored checks the writers of keys: see writers.Table.
type Authored struct {
	table map[controlplane.Kind]writers.Access
}

// NewAuthored returns a checker of authors.
func NewAuthored() *Authored {
	w := &Authored{table: make(map[controlplane.Kind]writers.Access)}
	for _, a := range writers.Table() {
		w.table[a.Kind] = a
	}
	return w
}

// Check validates OneWriter for a transaction committed at a revision: its author may write every
// key in it, and each key is in the author's range.
func (w *Authored) Check(by Author, txn controlplane.Txn, revision int64) []Finding {
	var out []Finding
	for _, op := range txn.Ops {
		k, ok := controlplane.Parse(op.Key)
		if !ok {
			continue // Schema
		}
		access := w.table[k.Kind]
		may, verb := access.Put, "put"
		if op.Delete {
			may, verb = access.Delete, "deleted"
		}
		if !slices.Contains(may, by.Writer) || !by.covers(k) {
			out = append(out, Finding{OneWriter, "key " + op.Key, revision, types.Textf("%s by the %s", verb, by)})
		}
	}
	return out
}

// covers reports whether a key is in the range of the author.
func (a Author) covers(k controlplane.Key) bool {
	switch a.Writer {
	case writers.Agent:
		return k.Node == a.Node
	case writers.Application:
		return k.Namespace == a.Namespace
	}
	return true
}
