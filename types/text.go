package types

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types/action"
)

// Text is a sentence for people that may name actions. It can be said in the words of any
// program; encoded, and to a program that does not care, it is a plain string.
type Text struct {
	plain string
	// said is nil where no action is named.
	said *said
}

// Textf formats a text. Arguments may be actions, and texts and errors that name some.
func Textf(format string, args ...any) Text {
	if s := newSaid(format, args); s != nil {
		return Text{plain: s.in(action.Action.String).Error(), said: s}
	}
	return Text{plain: fmt.Sprintf(format, args...)}
}

// String returns the text in words that are of no program.
func (t Text) String() string { return t.plain }

// Say returns the text with its actions as voice says them.
func (t Text) Say(voice action.Voice) string {
	if t.said == nil {
		return t.plain
	}
	return t.said.in(voice).Error()
}

// In returns the text as voice says it, from now on: its String is what Say returns.
func (t Text) In(voice action.Voice) Text { return Text{plain: t.Say(voice)} }

// IsZero reports whether the text is empty.
func (t Text) IsZero() bool { return t.plain == "" }

// Actions returns the actions that the text names, in order.
func (t Text) Actions() []action.Action {
	var all []action.Action
	t.Say(func(a action.Action) string {
		all = append(all, a)
		return ""
	})
	return all
}

// MarshalText returns the text as String does.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.plain), nil }

// UnmarshalText reads what MarshalText wrote. The actions are words from then on.
func (t *Text) UnmarshalText(text []byte) error {
	*t = Text{plain: string(text)}
	return nil
}

// Render returns the text of an error, or of one that wraps such, with its actions as
// voice says them.
func Render(err error, voice action.Voice) string {
	if e, ok := err.(*Error); ok {
		if e.said == nil {
			return e.Error()
		}
		return e.said.in(voice).Error()
	}
	text := err.Error()
	for _, cause := range causes(err) {
		if was, now := cause.Error(), Render(cause, voice); was != now {
			text = strings.Replace(text, was, now, 1)
		}
	}
	return text
}

// causes returns the errors that an error wraps.
func causes(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return several.Unwrap()
	}
	if cause := errors.Unwrap(err); cause != nil {
		return []error{cause}
	}
	return nil
}

// said is a format with its arguments, of which some name actions. It holds no other value
// for longer than it takes to format it once: errors and explanations may be kept.
type said struct {
	format string
	args   []any
}

// newSaid returns nil if no argument names an action.
func newSaid(format string, args []any) *said {
	if !slices.ContainsFunc(args, names) {
		return nil
	}
	s := &said{format: format, args: make([]any, len(args))}
	for i, arg := range args {
		s.args[i] = arg
		if !names(arg) && !plain(arg) {
			s.args[i] = &words{of: arg}
		}
	}
	return s
}

// names reports whether an argument names an action.
func names(arg any) bool {
	switch arg := arg.(type) {
	case action.Action:
		return true
	case Text:
		return arg.said != nil
	case *Error:
		return arg != nil && arg.said != nil
	case error:
		return slices.ContainsFunc(causes(arg), func(cause error) bool { return names(cause) })
	}
	return false
}

// plain reports whether an argument is kept as it is: an error, which may be the cause, or a
// number or string.
func plain(arg any) bool {
	if _, ok := arg.(error); ok || arg == nil {
		return true
	}
	kind := reflect.TypeOf(arg).Kind()
	return kind == reflect.String || kind >= reflect.Bool && kind <= reflect.Complex128
}

// in formats it with the actions as voice says them.
func (s *said) in(voice action.Voice) error {
	args := make([]any, len(s.args))
	for i, arg := range s.args {
		switch arg := arg.(type) {
		case action.Action:
			args[i] = spoken{text: voice(arg)}
		case Text:
			args[i] = spoken{text: arg.Say(voice)}
		case error:
			if names(arg) {
				args[i] = spoken{Render(arg, voice), arg}
			} else {
				args[i] = arg
			}
		default:
			args[i] = arg
		}
	}
	return fmt.Errorf(s.format, args...)
}

// spoken is an argument as a voice said it. It is an error, so that %w takes it.
type spoken struct {
	text  string
	cause error
}

func (s spoken) Error() string { return s.text }
func (s spoken) Unwrap() error { return s.cause }

// words is an argument that is formatted once, and then only what it was formatted as.
type words struct {
	of   any
	text string
}

// Format writes the argument, the first time as it is formatted.
func (w *words) Format(f fmt.State, verb rune) {
	if w.of != nil {
		w.text, w.of = fmt.Sprintf(fmt.FormatString(f, verb), w.of), nil
	}
	fmt.Fprint(f, w.text)
}
