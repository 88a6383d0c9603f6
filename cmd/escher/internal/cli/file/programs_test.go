package file

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// TestCommandedImages lists only images that get a command and no entry point, by full name.
func TestCommandedImages(t *testing.T) {
	of := func(specs ...*types.Spec) apply.Change {
		c := apply.Change{Kind: manifest.KindJob, Name: "j"}
		for _, s := range specs {
			c.Submissions = append(c.Submissions, controlplane.Submission{Spec: s})
		}
		return c
	}
	words := []string{"a"}
	got := commandedImages([]apply.Change{
		of(&types.Spec{Image: "busybox", Command: words}, &types.Spec{Image: "docker.io/library/busybox:latest", Command: words}),
		of(&types.Spec{Image: "none"}, &types.Spec{Image: "entry", Entrypoint: words, Command: words}, nil, &types.Spec{Image: "No Image", Command: words}),
	})
	want := []commanded{{"job/j", "docker.io/library/busybox:latest"}, {"job/j", "No Image"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNotesOfPrograms says one sentence about each image with an entry point, and one about all that
// no node has.
func TestNotesOfPrograms(t *testing.T) {
	known := map[string][]string{"entry": {"/start", "a b"}, "plain": nil}
	got := notesOf([]commanded{{"task/a", "plain"}, {"task/b", "entry"}, {"task/c", "new"}, {"task/d", "newer"}, {"task/e", "new"}}, known)
	want := []string{
		"task/b: the command is arguments of the entry point of image entry, which is /start 'a b'; write entrypoint: [] to run the command by itself",
		"No asked node has image new and 1 others: if an image has an entry point, commands are its arguments.",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := notesOf([]commanded{{"task/a", "plain"}}, known); len(got) > 0 {
		t.Errorf("got %q for an image without an entry point", got)
	}
	if got := distinct([]string{"b", "a", "b"}); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("got %q", got)
	}
}
