// Package manifest is how tasks, jobs, resources, reservations, policies and namespaces are written down:
// as YAML documents with apiVersion and kind, read strictly, and as the JSON of the
// task API, which has the same fields. Schema is the JSON Schema of the documents,
// made of the same types that they are read into.
package manifest

// APIVersion is the version of the documents.
const APIVersion = "escher.dev/v1"

// Kind is what a document describes.
type Kind string

// The kinds.
const (
	KindTask        Kind = "Task"
	KindJob         Kind = "Job"
	KindResource    Kind = "Resource"
	KindReservation Kind = "Reservation"
	KindPolicy      Kind = "Policy"
	KindNamespace   Kind = "Namespace"
)

// Kinds lists the kinds.
func Kinds() []Kind {
	return []Kind{KindTask, KindJob, KindResource, KindReservation, KindPolicy, KindNamespace}
}

// MaxTasks bounds the tasks of one job: to submit them takes seconds, and can be
// waited for.
const MaxTasks = 100_000
