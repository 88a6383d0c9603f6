package main

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/e2e/hollow"
)

// TestHello runs the program on a cluster within the test.
func TestHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Nodes(2, 1), Behave: hollow.EndAtOnce})
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := c.Client("default")
		if err == nil {
			err = hello(t.Context(), escher.Over(jobs))
		}
		if err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestGuideShowsTheProgram: docs/go.md shows the program.
func TestGuideShowsTheProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/go.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(program), "\npackage main\n")
	if shown = "package main\n" + shown; !strings.Contains(string(guide), "```go\n"+shown+"```") {
		t.Errorf("the guide does not show:\n%s", shown)
	}
}
