package types

import (
	"errors"
	"fmt"
)

// Class says what kind of failure an error is. It alone decides whether an
// operation is tried again, the exit code of the command line, the HTTP status
// of the task socket and the label of a metric: see ClassOf and the table in
// classes.
type Class int

// The classes. There are few on purpose: a caller can act on each.
const (
	// Internal is a defect, or a failure nobody foresaw.
	Internal Class = iota
	// NotFound: the object named does not exist.
	NotFound
	// AlreadyExists: the object to be created is there.
	AlreadyExists
	// Conflict: a compared key changed; read again, decide again.
	Conflict
	// Invalid: the input can never be accepted; nothing was written.
	Invalid
	// Precondition: the input is fine, the state of the system forbids it.
	Precondition
	// Unavailable: the other side could not be reached or is not serving;
	// nothing was done, the same call may be made again.
	Unavailable
	// Unknown: the call was sent and not answered; it may have happened, may
	// happen later, or never. See controlplane.Commit for how it is settled.
	Unknown
	// Compacted: the revision asked for is no longer kept.
	Compacted
)

// classes is the one table of error classes: name and exit code.
var classes = [...]struct {
	name string
	exit int
}{
	Internal:      {"internal", 1},
	NotFound:      {"not found", 3},
	AlreadyExists: {"already exists", 4},
	Conflict:      {"conflict", 5},
	Invalid:       {"invalid", 2},
	Precondition:  {"precondition", 6},
	Unavailable:   {"unavailable", 7},
	Unknown:       {"unknown outcome", 8},
	Compacted:     {"compacted", 9},
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

// ExitCode returns what the command line exits with on such an error.
func (c Class) ExitCode() int { return classes[c].exit }

// Retryable reports whether the same call may succeed later, unchanged.
func (c Class) Retryable() bool { return c == Unavailable || c == Unknown }

// Error is an error with its class. Its text is a verb, an object and what is
// wrong with it; for Invalid also the remedy.
type Error struct {
	Class Class
	err   error
}

// Errorf makes an error of the given class; a %w verb keeps the cause.
func Errorf(class Class, format string, args ...any) error {
	return &Error{Class: class, err: fmt.Errorf(format, args...)}
}

// Error returns the text.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the error that the text was formatted from.
func (e *Error) Unwrap() error { return e.err }

// ClassOf returns the class of the outermost classified error in err's chain,
// Internal when there is none.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Internal
}

// Is reports whether err is of the given class.
func Is(err error, class Class) bool { return err != nil && ClassOf(err) == class }
