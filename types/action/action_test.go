package action_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types/action"
)

// TestEveryVerbHasItsWords renders each action in neutral words, with all of its arguments.
func TestEveryVerbHasItsWords(t *testing.T) {
	for _, verb := range action.Verbs() {
		args := []string{"first", "second", "third"}[:verb.Arguments()]
		text := verb.Of(args...).String()
		if text == "" || strings.Contains(text, "%") || strings.Contains(text, "--") || strings.Contains(text, "escher") {
			t.Errorf("verb %d: %q is no neutral text", verb, text)
		}
		for _, arg := range args {
			if !strings.Contains(text, arg) {
				t.Errorf("verb %d: %q does not say %q", verb, text, arg)
			}
		}
	}
}

func TestActionNamesAnotherNamespace(t *testing.T) {
	a := action.Explain.Of("web-1")
	if got := a.String(); got != "explain web-1" {
		t.Error(got)
	}
	if got := a.In("team").String(); got != "explain web-1 in namespace team" {
		t.Error(got)
	}
}
