package types

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types/action"
)

// Text is a sentence for people that may contain actions. Every program can render it in its own
// words. Its encoding, and its String, are plain text.
type Text struct {
	plain string
	// phrase is nil if the text contains no action.
	phrase *phrase
}

// Textf formats a text. Arguments may be actions, or texts and errors that contain some.
func Textf(format string, args ...any) Text {
	if s := newPhrase(format, args); s != nil {
		return Text{plain: s.in(action.Action.String).Error(), phrase: s}
	}
	return Text{plain: fmt.Sprintf(format, args...)}
}

// String returns the text with neutral words for its actions.
func (t Text) String() string { return t.plain }

// Render returns the text with its actions rendered by voice.
func (t Text) Render(voice action.Renderer) string {
	if t.phrase == nil {
		return t.plain
	}
	return t.phrase.in(voice).Error()
}

// In returns a text whose String is what Render returns.
func (t Text) In(voice action.Renderer) Text { return Text{plain: t.Render(voice)} }

// IsZero reports whether the text is empty.
func (t Text) IsZero() bool { return t.plain == "" }

// Actions returns the actions in the text, in order.
func (t Text) Actions() []action.Action {
	var all []action.Action
	t.Render(func(a action.Action) string {
		all = append(all, a)
		return ""
	})
	return all
}

// MarshalText returns the text like String.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.plain), nil }

// UnmarshalText reads what MarshalText wrote. Its actions become plain words.
func (t *Text) UnmarshalText(text []byte) error {
	*t = Text{plain: string(text)}
	return nil
}

// Render returns the text of an error, and of the errors it wraps, with actions rendered by voice.
func Render(err error, voice action.Renderer) string {
	if e, ok := err.(*Error); ok {
		if e.phrase == nil {
			return e.Error()
		}
		return e.phrase.in(voice).Error()
	}
	text := err.Error()
	for _, cause := range causes(err) {
		if was, now := cause.Error(), Render(cause, voice); was != now {
			text = strings.Replace(text, was, now, 1)
		}
	}
	return text
}

// causes returns the errors that err wraps.
func causes(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return several.Unwrap()
	}
	if cause := errors.Unwrap(err); cause != nil {
		return []error{cause}
	}
	return nil
}

// phrase is a format with arguments, at least one of which contains an action. It formats other
// values once and then drops them, because errors and explanations may live long.
type phrase struct {
	format string
	args   []any
}

// newPhrase returns nil if no argument contains an action.
func newPhrase(format string, args []any) *phrase {
	if !slices.ContainsFunc(args, names) {
		return nil
	}
	s := &phrase{format: format, args: make([]any, len(args))}
	for i, arg := range args {
		s.args[i] = arg
		if !names(arg) && !plain(arg) {
			s.args[i] = &formattedArg{of: arg}
		}
	}
	return s
}

// names reports whether an argument contains an action.
func names(arg any) bool {
	switch arg := arg.(type) {
	case action.Action:
		return true
	case Text:
		return arg.phrase != nil
	case *Error:
		return arg != nil && arg.phrase != nil
	case error:
		return slices.ContainsFunc(causes(arg), func(cause error) bool { return names(cause) })
	}
	return false
}

// plain reports whether to keep an argument as it is: an error, which may be the cause, or a number
// or string.
func plain(arg any) bool {
	if _, ok := arg.(error); ok || arg == nil {
		return true
	}
	kind := reflect.TypeOf(arg).Kind()
	return kind == reflect.String || kind >= reflect.Bool && kind <= reflect.Complex128
}

// in formats the phrase with its actions rendered by voice.
func (s *phrase) in(voice action.Renderer) error {
	args := make([]any, len(s.args))
	for i, arg := range s.args {
		switch arg := arg.(type) {
		case action.Action:
			args[i] = renderedArg{text: voice(arg)}
		case Text:
			args[i] = renderedArg{text: arg.Render(voice)}
		case error:
			if names(arg) {
				args[i] = renderedArg{Render(arg, voice), arg}
			} else {
				args[i] = arg
			}
		default:
			args[i] = arg
		}
	}
	return fmt.Errorf(s.format, args...)
}

// renderedArg is an argument rendered by a voice. It is an error, so that %w accepts it.
type renderedArg struct {
	text  string
	cause error
}

func (s renderedArg) Error() string { return s.text }
func (s renderedArg) Unwrap() error { return s.cause }

// formattedArg is an argument that is formatted once, and afterwards only its text.
type formattedArg struct {
	of   any
	text string
}

// Format writes the text of the argument, and formats it the first time.
func (w *formattedArg) Format(f fmt.State, verb rune) {
	if w.of != nil {
		w.text, w.of = fmt.Sprintf(fmt.FormatString(f, verb), w.of), nil
	}
	fmt.Fprint(f, w.text)
}

// shorten shortens a text for an error.
func shorten(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:37], "") + "..."
	}
	return s
}
