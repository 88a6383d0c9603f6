package manifest_test

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

func TestWorkdir(t *testing.T) {
	s := compiled(t)
	task := head(manifest.KindTask) + taskText
	sent := types.WorkdirRepository + "@sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for text, want := range map[string]manifest.Workdir{
		"  workdir: .\n":                        {From: "."},
		"  workdir: ../src\n":                   {From: "../src"},
		"  workdir: {from: ., to: /app}\n":      {From: ".", To: "/app"},
		"  workdir: {from: /abs}\n":             {From: "/abs"},
		"  workdir:\n    image: " + sent + "\n": {Image: sent},
	} {
		docs, err := manifest.Parse("f", []byte(task+text), known())
		if err != nil || !admits(t, s, task+text) {
			t.Errorf("%s: refused: %v", text, err)
			continue
		}
		specs := docs[0].Specs()
		if len(specs) != 1 || *specs[0].Workdir != want {
			t.Errorf("%s: %d specs, %+v; want %+v", text, len(specs), specs[0].Workdir, want)
		}
	}
	for text, says := range map[string]string{
		"  workdir: [.]\n":                            "f:7: spec.workdir: a list is given: write fields, such as from: …",
		"  workdir: /www\n":                           `f:7: spec.workdir: "/www" is absolute: write dir: /www for a directory in the container, or {from: /www} for one of this machine`,
		"  workdir: ''\n":                             "f:7: spec.workdir.from: is missing: name a directory",
		"  workdir: {to: /app}\n":                     "f:7: spec.workdir.from: is missing: name a directory",
		"  workdir: {from: ., to: app}\n":             `f:7: spec.workdir.to: "app" is not absolute`,
		"  workdir: {from: ., at: /app}\n":            "f:7: spec.workdir.at: is unknown",
		"  workdir: {from: ., image: " + sent + "}\n": "f:7: spec.workdir.from: is given together with image",
	} {
		_, err := manifest.Parse("f", []byte(task+text), known())
		refused(t, err, text, says)
		if admits(t, s, task+text) {
			t.Errorf("the schema admits %s", text)
		}
	}
	for text, says := range map[string]string{
		"  workdir: {image: busybox}\n":                  `f:7: spec.workdir.image: "busybox" is not the image of a directory`,
		"  workdir: {from: ., to: /proc/x}\n":            `f:7: spec.workdir.to: "/proc/x" is part of every container`,
		"  workdir: .\n  mounts: [{target: /workdir}]\n": `f:8: spec.mounts[0].target: "/workdir" is the workdir too`,
	} {
		_, err := manifest.Parse("f", []byte(task+text), known())
		refused(t, err, text, says)
	}
}

func TestSpecsOfJobs(t *testing.T) {
	docs, err := manifest.Parse("f", []byte(head(manifest.KindJob)+"tasks:\n- spec: {image: a, workdir: .}\n- spec: {image: b}\n---\n"+
		head(manifest.KindJob)+"template: {spec: {image: c}}\n---\n"+head(manifest.KindResource)+"name: x\ncapacity: 1\nwhere: {}\n"), known())
	if err != nil {
		t.Fatal(err)
	}
	var images []string
	for i := range docs {
		for _, s := range docs[i].Specs() {
			images = append(images, s.Image)
		}
	}
	if len(images) != 3 || images[0] != "a" || images[1] != "b" || images[2] != "c" {
		t.Errorf("specs of %q, want a, b and c", images)
	}
}

// TestUnsentWorkdir tests that a task with a directory that was not sent is refused.
func TestUnsentWorkdir(t *testing.T) {
	task := manifest.Task{Spec: manifest.Spec{Image: "a", Workdir: &manifest.Workdir{From: "."}}}
	s, err := task.Submission(time.Now())
	if err == nil {
		err = s.Spec.Validate()
	}
	refused(t, err, "from: .", "workdir.image: is missing: the command line sends a directory before it submits the task")
}
