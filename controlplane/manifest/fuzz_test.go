package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// FuzzFile reads any text as a file of documents: it is refused as Invalid with a readable error,
// or its content is checked.
func FuzzFile(f *testing.F) {
	for _, kind := range manifest.Kinds() {
		f.Add(head(kind) + taskText)
	}
	files, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("a: &a [x]\nb: [*a, *a]\n")
	f.Add("? {}\n: !!binary x\n---\n- 1e999\n")
	f.Fuzz(func(t *testing.T, text string) {
		docs, err := manifest.Parse("f", []byte(text), known())
		if err != nil {
			if !types.Is(err, types.Invalid) || len(err.Error()) > 64<<10+4*len(text) || !strings.Contains(err.Error(), "f:") {
				t.Fatalf("%v is of class %s, and has %d bytes", err, types.ClassOf(err), len(err.Error()))
			}
			return
		}
		for _, d := range docs {
			if err := d.Validate(time.Unix(1e9, 0)); err != nil && !types.Is(err, types.Invalid) {
				t.Fatalf("%s: %v is of class %s", d.String(), err, types.ClassOf(err))
			}
		}
	})
}
