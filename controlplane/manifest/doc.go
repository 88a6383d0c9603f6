// Package manifest defines the written form of tasks, jobs, resources, reservations, policies and
// namespaces. They are YAML documents with apiVersion and kind, decoded strictly, and the JSON of
// the task API with the same fields. Schema is the JSON Schema of the documents, made of the same
// types.
package manifest

// APIVersion is the version of the documents.
const APIVersion = "escher.dev/v1"

// Kind is the kind of object that a document describes.
type Kind string

// The kinds.
const (
	KindTask        Kind = "Task"
	KindJob         Kind = "Job"
	KindResource    Kind = "Resource"
	KindReservation Kind = "Reservation"
	KindPolicy      Kind = "Policy"
	KindNamespace   Kind = "Namespace"
	KindRight       Kind = "Right"
)

// Kinds lists the kinds.
func Kinds() []Kind {
	return []Kind{KindTask, KindJob, KindResource, KindReservation, KindPolicy, KindNamespace, KindRight}
}

// MaxTasks bounds the tasks of one job: submitting them takes seconds, so callers can wait for it.
const MaxTasks = 100_000
