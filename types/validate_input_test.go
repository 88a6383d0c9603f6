package types

import (
	"strings"
	"testing"
)

func TestValidateInput(t *testing.T) {
	for name, c := range map[string]struct {
		spec    Spec
		retries int
		says    string
	}{
		"both":           {Spec{Stdin: true, TTY: true}, 0, ""},
		"restart":        {Spec{Stdin: true, Restart: &Restart{When: RestartAlways}}, 0, "stdin: is true, and restart is always"},
		"retries":        {Spec{Stdin: true}, 2, "stdin: is true, and retries is 2"},
		"terminal alone": {Spec{TTY: true, Restart: &Restart{When: RestartAlways}}, 2, ""},
	} {
		c.spec.Image = "a"
		err := joinInvalid(nonNil([]error{c.spec.Validate(), (&Task{Retries: c.retries}).ValidateInput(&c.spec)}))
		if c.says == "" && err != nil || c.says != "" && (!Is(err, Invalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}

func TestRunsOn(t *testing.T) {
	with, without := Spec{Stdin: true}, Spec{TTY: true}
	if err := with.RunsOn(1); err != nil {
		t.Error(err)
	}
	if err := with.RunsOn(2); !Is(err, Invalid) {
		t.Errorf("second attempt with an input: %v", err)
	}
	if err := without.RunsOn(2); err != nil {
		t.Error(err)
	}
}
