package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// TestLabelFlagsAddTo adds labels to everything in a file that runs, in place of other values there.
func TestLabelFlagsAddTo(t *testing.T) {
	var l labelFlags
	set := pflag.NewFlagSet("run", pflag.ContinueOnError)
	l.Add(set, "l")
	if err := set.Parse([]string{"-l", "stage=prod", "--label", "sweep=7"}); err != nil || l.String() != "stage=prod,sweep=7" {
		t.Fatal(l, err)
	}
	for text, want := range map[string]string{"stage=dev": `label.stage: is given twice, as "prod" and "dev"`, "x": "label: \"x\" is not key=value", "a b=c": "contains ' '"} {
		if err := l.Set(text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) || len(l) != 2 {
			t.Errorf("%s: %v, %v", text, l, err)
		}
	}
	docs := []manifest.Document{
		{Kind: manifest.KindTask, Task: &manifest.Task{}},
		{Kind: manifest.KindJob, Job: &manifest.Job{Labels: map[string]string{"team": "a"}, Template: &manifest.Task{Labels: map[string]string{"stage": "dev"}}}},
		{Kind: manifest.KindJob, Job: &manifest.Job{Tasks: []manifest.Task{{Labels: map[string]string{"stage": "dev", "x": "y"}}, {}}}},
		{Kind: manifest.KindResource, Resource: &manifest.Resource{Name: "slot"}},
	}
	labelFlags(nil).AddTo(docs)
	if docs[0].Task.Labels != nil {
		t.Error("no labels are labels")
	}
	l.AddTo(docs)
	got := fmt.Sprint(docs[0].Task.Labels, docs[1].Job.Labels, docs[1].Job.Template.Labels, docs[2].Job.Labels, docs[2].Job.Tasks[0].Labels, docs[2].Job.Tasks[1].Labels)
	want := "map[stage:prod sweep:7] map[stage:prod sweep:7 team:a] map[stage:prod sweep:7] map[stage:prod sweep:7] map[stage:prod sweep:7 x:y] map[stage:prod sweep:7]"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestFileOr takes exactly one of names, a file and a selector.
func TestFileOr(t *testing.T) {
	for _, test := range []struct {
		file, selector string
		args           []string
		want           string
	}{
		{"", "", nil, "TASK: is missing"},
		{"", "", []string{"web"}, ""},
		{"app.yaml", "", nil, ""},
		{"app.yaml", "", []string{"web"}, "file: names what to stop, and web is named too"},
		{"", "a=b", nil, ""},
		{"", "a=b", []string{"web"}, "selector: web is named too"},
		{"app.yaml", "a=b", nil, "selector: --file is given too"},
		{"app.yaml", "a=b", []string{"web"}, "selector: --file is given too"},
	} {
		cmd := &cobra.Command{Use: "stop TASK..."}
		var labels cmdutil.Selection
		labels.AddSelector(cmd, cmdutil.TaskLabels, "those")
		if test.selector != "" {
			if err := labels.Set(test.selector); err != nil {
				t.Fatal(err)
			}
		}
		err := fileOr(&test.file, &labels, cmdutil.AtLeastOne("TASK"))(cmd, test.args)
		if test.want == "" && err != nil || test.want != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
