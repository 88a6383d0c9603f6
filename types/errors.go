package types

import (
	"errors"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/types/action"
)

// Class is the kind of failure of an error. It alone decides whether an operation is retried, and
// determines the exit code of the command line, the HTTP status of the task socket and the label of
// a metric: see ClassOf and the table classes. As an error it is a target of errors.Is:
// errors.Is(err, types.NotFound).
type Class int

// The classes. There are few on purpose: a caller can act on each one.
const (
	// Internal is a defect, or an unforeseen failure.
	Internal Class = iota
	// NotFound: the named object does not exist.
	NotFound
	// AlreadyExists: the object to create exists.
	AlreadyExists
	// Conflict: a compared key changed; read again, decide again.
	Conflict
	// Invalid: the input can never be accepted; nothing was written.
	Invalid
	// Precondition: the input is valid, but the state of the system forbids it.
	Precondition
	// Unavailable: the other side is unreachable or not serving. Nothing was done; the same call
	// may be repeated.
	Unavailable
	// Unknown: the call was sent but not answered. It may have happened, may happen later, or
	// never. controlplane.Commit resolves it.
	Unknown
	// Compacted: the store no longer has the requested revision.
	Compacted
	// Denied: the caller is unknown, or has no right to do it.
	Denied
)

// classes is the one table of error classes: name, exit code, and the meaning for users of the
// command line.
var classes = [...]struct {
	name    string
	exit    int
	meaning string
}{
	Internal:      {"internal", 1, "a defect, or an unforeseen failure"},
	NotFound:      {"not found", 3, "the named object does not exist"},
	AlreadyExists: {"already exists", 4, "the object to create exists already"},
	Conflict:      {"conflict", 5, "something changed meanwhile: look again, decide again"},
	Invalid:       {"invalid", 2, "the command can never be accepted: correct it"},
	Precondition:  {"precondition", 6, "the state of the cluster forbids it at present"},
	Unavailable:   {"unavailable", 7, "the cluster, or a part of it, is unreachable: nothing was done"},
	Unknown:       {"unknown outcome", 8, "sent and not answered: it may have happened"},
	Compacted:     {"compacted", 9, "the requested history is no longer stored"},
	Denied:        {"denied", 10, "the caller is unknown, or has no right to do it"},
}

// Exit codes of a command line that a signal ended, as in shells.
const (
	ExitInterrupted = 130
	ExitTerminated  = 143
)

// ExitCode is an exit code of the command line.
type ExitCode struct {
	Code int
	// Name is the name of the class, Meaning its explanation.
	Name, Meaning string
}

// ExitCodes lists every exit code of the command line, in order. Commands that follow a task exit
// with the code of the task instead.
func ExitCodes() []ExitCode {
	codes := []ExitCode{{0, "success", "the command did what it was asked to"}}
	for _, c := range classes {
		codes = append(codes, ExitCode{c.exit, c.name, c.meaning})
	}
	codes = append(codes, ExitCode{ExitInterrupted, "interrupted", "Ctrl-C (SIGINT) interrupted it"}, ExitCode{ExitTerminated, "terminated", "SIGTERM ended it"})
	slices.SortFunc(codes, func(a, b ExitCode) int { return a.Code - b.Code })
	return codes
}

// Classes lists every class, in the order of the table.
func Classes() []Class {
	all := make([]Class, len(classes))
	for i := range all {
		all[i] = Class(i)
	}
	return all
}

// String returns the name of the class.
func (c Class) String() string { return classes[c].name }

// Error returns the name of the class.
func (c Class) Error() string { return c.String() }

// ExitCode returns the exit code of the command line for such an error.
func (c Class) ExitCode() int { return classes[c].exit }

// Retryable reports whether the same call may succeed later.
func (c Class) Retryable() bool { return c == Unavailable || c == Unknown }

// Error is an error with a class. Its text is a verb, an object and the problem; for Invalid also
// the remedy.
type Error struct {
	Class Class
	err   error
	// phrase is nil if the text contains no action.
	phrase *phrase
}

// Errorf makes an error of a class; a %w verb keeps the cause. Arguments may be actions, or texts
// and errors that contain some: see Render.
func Errorf(class Class, format string, args ...any) error {
	if s := newPhrase(format, args); s != nil {
		return &Error{Class: class, err: s.in(action.Action.String), phrase: s}
	}
	return &Error{Class: class, err: fmt.Errorf(format, args...)}
}

// Error returns the text, with its actions in neutral words.
func (e *Error) Error() string { return e.err.Error() }

// Is reports whether target is the class of the error.
func (e *Error) Is(target error) bool { return target == error(e.Class) }

// KeyChanged is a cause of a Conflict: a key of the store is not as it was read.
type KeyChanged struct {
	Key string
	// Was and Is are the revisions of its last change when it was read and now; 0 means absent.
	Was, Is int64
}

// Error says what changed.
func (e KeyChanged) Error() string {
	switch {
	case e.Was == 0:
		return fmt.Sprintf("%s was absent and was created at revision %d", e.Key, e.Is)
	case e.Is == 0:
		return fmt.Sprintf("%s of revision %d was deleted", e.Key, e.Was)
	}
	return fmt.Sprintf("%s moved from revision %d to %d", e.Key, e.Was, e.Is)
}

// Unwrap returns the formatted error, which wraps the causes, without their classes.
func (e *Error) Unwrap() error { return cause{e.err} }

// cause is the cause of an Error. An error has one class, the outermost: those of causes are not
// found.
type cause struct{ error }

// Is reports whether the cause is or wraps target, unless that is a class.
func (c cause) Is(target error) bool {
	_, class := target.(Class)
	return !class && errors.Is(c.error, target)
}

// As finds an error of the type of target in the cause.
func (c cause) As(target any) bool { return errors.As(c.error, target) }

// ClassOf returns the class of the outermost classified error in err's chain, or Internal if there
// is none.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Internal
}

// Is reports whether err is of the given class. Unlike errors.Is, it counts an unclassified error as
// Internal.
func Is(err error, class Class) bool { return err != nil && ClassOf(err) == class }
