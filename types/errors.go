package types

import (
	"errors"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/types/action"
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

// classes is the one table of error classes: name, exit code and what it means to
// somebody who types commands.
var classes = [...]struct {
	name    string
	exit    int
	meaning string
}{
	Internal:      {"internal", 1, "a defect, or a failure nobody foresaw"},
	NotFound:      {"not found", 3, "what was named does not exist"},
	AlreadyExists: {"already exists", 4, "what was to be created is there"},
	Conflict:      {"conflict", 5, "something changed meanwhile: look again, decide again"},
	Invalid:       {"invalid", 2, "the command can never be accepted: correct it"},
	Precondition:  {"precondition", 6, "the state of the cluster forbids it at present"},
	Unavailable:   {"unavailable", 7, "the cluster, or a part of it, cannot be reached: nothing was done"},
	Unknown:       {"unknown outcome", 8, "sent and not answered: it may have happened"},
	Compacted:     {"compacted", 9, "the history asked for is no longer kept"},
}

// ExitInterrupted is what the command line exits with when it was interrupted, as
// shells have it.
const ExitInterrupted = 130

// ExitCode is an exit code of the command line.
type ExitCode struct {
	Code int
	// Name is that of the class, Meaning what it tells.
	Name, Meaning string
}

// ExitCodes lists every exit code of the command line, in order. Commands that end
// with a task have that of the task instead.
func ExitCodes() []ExitCode {
	codes := []ExitCode{{0, "success", "what was asked for was done"}}
	for _, c := range classes {
		codes = append(codes, ExitCode{c.exit, c.name, c.meaning})
	}
	codes = append(codes, ExitCode{ExitInterrupted, "interrupted", "it was interrupted from the keyboard or by a signal"})
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

// ExitCode returns what the command line exits with on such an error.
func (c Class) ExitCode() int { return classes[c].exit }

// Retryable reports whether the same call may succeed later, unchanged.
func (c Class) Retryable() bool { return c == Unavailable || c == Unknown }

// Error is an error with its class. Its text is a verb, an object and what is
// wrong with it; for Invalid also the remedy.
type Error struct {
	Class Class
	err   error
	// said is nil where no action is named.
	said *said
}

// Errorf makes an error of the given class; a %w verb keeps the cause. Arguments may be
// actions, and texts and errors that name some: see Render.
func Errorf(class Class, format string, args ...any) error {
	if s := newSaid(format, args); s != nil {
		return &Error{Class: class, err: s.in(action.Action.String), said: s}
	}
	return &Error{Class: class, err: fmt.Errorf(format, args...)}
}

// Error returns the text, with its actions in words that are of no program.
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
