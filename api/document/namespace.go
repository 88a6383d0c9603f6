package document

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
)

// Namespace is a namespace with the settings of an administrator, as a file has them.
type Namespace struct {
	manifest.Namespace
	// Revision is that of the last change.
	Revision int64 `json:"revision"`
}

// NamespaceOf returns the document of a namespace.
func NamespaceOf(n *controlplane.Namespace) Namespace {
	out := Namespace{Namespace: manifest.FromNamespace(&n.Namespace), Revision: n.Revision}
	out.Name = n.Name
	return out
}
