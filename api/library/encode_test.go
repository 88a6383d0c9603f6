package library_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/controlplane/manifest"
)

// TestEncode writes the documents of each example so that they are read as the same.
func TestEncode(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../examples/*/*.yaml", "testdata/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	read := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := manifest.Parse(file, text, library.KnownPolicies())
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		read++
		again, err := manifest.Encode(docs)
		if err != nil {
			t.Fatal(err)
		}
		got, err := manifest.Parse(file, again, library.KnownPolicies())
		if err != nil || len(got) != len(docs) {
			t.Errorf("%s: %d documents, want %d: %v\n%s", file, len(got), len(docs), err, again)
			continue
		}
		for i := range docs {
			is, want := docs[i], got[i]
			for _, d := range []*manifest.Document{&is, &want} {
				*d = manifest.Document{Kind: d.Kind, Task: d.Task, Job: d.Job, Resource: d.Resource, Reservation: d.Reservation, Policy: d.Policy, Namespace: d.Namespace}
				if d.Job != nil && d.Job.Array != nil {
					d.Job.Array.AtOnce = 0 // it is a policy
				}
			}
			if !reflect.DeepEqual(is, want) {
				t.Errorf("%s: %s: %+v, want %+v\n%s", file, &docs[i], want, is, again)
			}
		}
	}
	if read < 15 {
		t.Errorf("read %d of %d examples", read, len(files))
	}
}
