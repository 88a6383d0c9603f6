package main

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
)

// TestShift runs a job of this program and a job as from a file, of one shared policy: none of their
// tasks starts before its hour.
func TestShift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight
		c, err := hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Nodes(1, 4), Kinds: esl.Kinds{}.With(kind)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		jobs, err := c.Client("default")
		if err != nil {
			t.Fatal(err)
		}
		if err := jobs.Declare(t.Context(), "office", Shift{From: 1, Until: 6}, ""); err != nil {
			t.Fatal(err)
		}
		for _, of := range []string{"", Shift{}.Kind()} {
			p := esl.Use{Name: "office", Of: of}
			if _, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: esl.Copies(1, hollow.Task(1000)), Name: "report"}, p); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Await(t.Context(), func(v *cluster.View) bool { return len(hollow.Running(v, "default")) == 2 }); err != nil {
			t.Fatal(err)
		}
		if hour := time.Now().UTC().Hour(); hour != 1 {
			t.Errorf("the tasks start in hour %d", hour)
		}
	})
}

// TestGuideShowsThePolicy: docs/policies/api.md shows the tested policy.
func TestGuideShowsThePolicy(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/policies/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := strings.Cut(string(program), "// Next opens")
	policy, _, _ = strings.Cut(policy, "// kind returns")
	if shown := strings.TrimSpace("// Next opens" + policy); !strings.Contains(string(guide), "```go\n"+shown+"\n```") {
		t.Errorf("the guide does not show:\n%s", shown)
	}
}
