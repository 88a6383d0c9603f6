package types_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// loud is a voice that differs visibly from the neutral one.
func loud(a action.Action) string { return fmt.Sprintf("<%d%q>", a.Verb, a.Args) }

// TestErrorSaysItsActionsInAnyVoice renders errors, and errors that wrap them, in another voice.
func TestErrorSaysItsActionsInAnyVoice(t *testing.T) {
	stop := action.Stop.Of("a")
	inner := types.Errorf(types.NotFound, "there is no %q: %s", "b", stop)
	said := loud(stop)
	for name, x := range map[string]struct {
		err           error
		neutral, loud string
	}{
		"an action":             {inner, `there is no "b": stop a`, `there is no "b": ` + said},
		"no action":             {types.Errorf(types.Invalid, "no: %d", 3), "no: 3", "no: 3"},
		"wrapped":               {types.Errorf(types.Conflict, "try %d: %w", 2, inner), `try 2: there is no "b": stop a`, `try 2: there is no "b": ` + said},
		"wrapped and then said": {types.Errorf(types.Conflict, "%w: %s", fs.ErrExist, stop), "file already exists: stop a", "file already exists: " + said},
		"wrapped by others":     {fmt.Errorf("read: %w", inner), `read: there is no "b": stop a`, `read: there is no "b": ` + said},
		"wrapped twice":         {types.Errorf(types.Invalid, "x: %w", fmt.Errorf("read: %w", inner)), `x: read: there is no "b": stop a`, `x: read: there is no "b": ` + said},
		"joined":                {errors.Join(inner, errors.New("more")), "there is no \"b\": stop a\nmore", "there is no \"b\": " + said + "\nmore"},
		"a text":                {types.Errorf(types.Invalid, "x: %s", types.Textf("either %s", stop)), "x: either stop a", "x: either " + said},
		"words around":          {types.Errorf(types.Invalid, "%v and %-4d|%s", []string{"p", "q"}, 7, stop), "[p q] and 7   |stop a", "[p q] and 7   |" + said},
		"foreign":               {fs.ErrExist, "file already exists", "file already exists"},
	} {
		if got := x.err.Error(); got != x.neutral {
			t.Errorf("%s: neutral: %q, not %q", name, got, x.neutral)
		}
		if got := types.Render(x.err, loud); got != x.loud {
			t.Errorf("%s: %q, not %q", name, got, x.loud)
		}
	}
}

// TestErrorWithActionsKeepsItsCause unwraps a %w cause next to an action.
func TestErrorWithActionsKeepsItsCause(t *testing.T) {
	inner := types.Errorf(types.NotFound, "%w: %s", fs.ErrExist, action.ListNodes.Of())
	outer := types.Errorf(types.Conflict, "x: %w", inner)
	if !errors.Is(outer, fs.ErrExist) || !errors.Is(outer, inner) || !types.Is(outer, types.Conflict) {
		t.Errorf("%v lost a cause", outer)
	}
}

// TestErrorKeepsWordsOnly changes an argument after the error was created.
func TestErrorKeepsWordsOnly(t *testing.T) {
	list := []string{"a", "b"}
	err := types.Errorf(types.Invalid, "%v: %s", list, action.ListNodes.Of())
	list[0] = "changed"
	if got := types.Render(err, action.Action.String); got != "[a b]: list the nodes" {
		t.Error(got)
	}
}

// TestTextIsAString encodes and decodes a text, and renders it in another voice.
func TestTextIsAString(t *testing.T) {
	type note struct {
		Text types.Text `json:"text,omitzero"`
	}
	stop := action.Stop.Of("a")
	text := types.Textf("to end it: %s", stop)
	if raw, err := json.Marshal(note{text}); err != nil || string(raw) != `{"text":"to end it: stop a"}` {
		t.Errorf("%s, %v", raw, err)
	}
	if raw, err := json.Marshal(note{text.In(loud)}); err != nil || string(raw) == `{"text":"to end it: stop a"}` {
		t.Errorf("in another voice: %s, %v", raw, err)
	}
	if raw, err := json.Marshal(note{}); err != nil || string(raw) != `{}` {
		t.Errorf("empty: %s, %v", raw, err)
	}
	var back note
	if err := json.Unmarshal([]byte(`{"text":"to end it: stop a"}`), &back); err != nil || back.Text.String() != text.String() {
		t.Errorf("decoded: %q, %v", back.Text, err)
	}
	if all := text.Actions(); len(all) != 1 || all[0].Verb != action.Stop {
		t.Errorf("actions: %v", all)
	}
}
