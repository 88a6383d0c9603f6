package images

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestApplets links the programs that a binary lists, except those with a binary of their own.
func TestApplets(t *testing.T) {
	script := func(name, list string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+list+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	box := script("box", `test "$1" = --list && printf '[\nls\nsh\n'`)
	spec, err := making{applets: "box"}.spec(t.Context(), "escher.local/bb:1", []string{box, "/own/ls"})
	want := map[string]string{"/bin/[": "/bin/box", "/bin/sh": "/bin/box"}
	if err != nil || !maps.Equal(spec.Links, want) || !slices.Equal(spec.Command, []string{"/bin/box"}) {
		t.Errorf("links %v, command %v, %v; want %v", spec.Links, spec.Command, err, want)
	}
	for name, path := range map[string]string{
		"other": box, "none": script("none", "true"), "bad": script("bad", "exit 1"), "path": script("path", "echo ../sh"),
	} {
		if _, err := (making{applets: name}).spec(t.Context(), "escher.local/bb:1", []string{path}); !types.Is(err, types.Invalid) {
			t.Errorf("%s: %v, want Invalid", name, err)
		}
	}
}
