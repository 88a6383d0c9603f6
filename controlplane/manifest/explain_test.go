package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

func TestExplain(t *testing.T) {
	for path, want := range map[string]manifest.Explanation{
		"job":                     {Type: "document", Desc: "several tasks that belong together: copies of a template, or a list"},
		"JOB.template":            {Path: "job.template", Type: "object", Desc: "what each task is"},
		"job.pack":                {Type: "policy", Desc: "packs them"},
		"job.policies.pack.over":  {Type: "text", Desc: "which side", Required: true, Choices: []string{"left", "right"}},
		"job.lab":                 {Type: "text", Desc: "of the lab"},
		"policy.shares.teams":     {Type: "map of names to objects", Desc: "what it is made of"},
		"task.maxRun":             {Type: "duration", Desc: "how long an attempt may run", Default: "without limit", Examples: []any{"30s", "1h30m"}},
		"task.spec.restart.limit": {Type: "whole number", Desc: "how often at most", Default: "without limit"},
		"task.restart.limit":      {Type: "whole number", Desc: "how often at most", Default: "without limit"},
		"job.tasks[3].warn":       {Path: "job.tasks.warn", Type: "text, or object", Desc: "a signal some time before it is asked to end", Examples: []any{"USR1@120s"}},
		"task.requests.gpu.count": {Type: "amount", Desc: "how many, or a fraction of one", Required: true, Examples: []any{"1", "500m", "4Gi", "inf"}},
		"Job.Template.Requests":   {Path: "job.template.requests", Type: "map of resources to amounts", Desc: "amounts of resources, all of it on one node"},
		"task.requests.cpu":       {Type: "amount", Desc: "processor cores", Examples: []any{"1", "500m"}},
		"task.apiVersion":         {Type: "text", Desc: "escher.dev/v1", Required: true},
		"task.ports":              {Type: "list of names, numbers, or objects", Desc: "ports of the node that it listens at: a name for one that the node chooses, or a number; they are requested too", Examples: []any{"http", 8080}},
		"task.workdir":            {Type: "text, or object", Desc: "a directory with your code, . for that of the file, in the container; the working directory unless dir is given", Examples: []any{"."}},
		"resource.where.labels":   {Type: "map of names to texts", Desc: "every node with these labels, present and future"},
		"task.checks.http.port":   {Type: "name, or number", Desc: "the name of a port of the task, or a number", Required: true, Examples: []any{"http", 8080}},
	} {
		if want.Path == "" {
			want.Path = path
		}
		got, err := manifest.Explain(path, known())
		if err != nil || got.Path != want.Path || got.Type != want.Type || got.Desc != want.Desc || got.Required != want.Required ||
			got.Default != want.Default || !slices.Equal(got.Choices, want.Choices) || !slices.Equal(got.Examples, want.Examples) {
			t.Errorf("%s: %+v, %v\nwant %+v", path, got, err, want)
		}
	}
	for path, says := range map[string]string{
		"":                        `"" is unknown: use task, job, resource`,
		"jbo":                     `"jbo" is unknown: did you mean job?`,
		"job.pakc":                `"job.pakc" is unknown: did you mean pack?`,
		"job.pack.over.x":         `job.pack.over has no fields: leave "x" out`,
		"task.":                   `"task." is unknown: use apiVersion, kind, id, name`,
		"task.plain":              `"task.plain" is unknown: did you mean job.plain?`,
		"task.quux":               `"task.quux" is unknown: use apiVersion, kind, id, name`,
		"task.requests.gpus":      `"task.requests.gpus" is unknown: did you mean gpu?`,
		"job.template.spec.imgae": `"job.template.spec.imgae" is unknown: did you mean image?`,
		"policy.lab":              `"policy.lab" is unknown: did you mean job.lab?`,
		"image":                   `"image" is unknown: did you mean task.image?`,
		"pack":                    `"pack" is unknown: did you mean job.pack?`,
		"job.image":               `"job.image" is unknown: did you mean job.template.image or job.tasks.image?`,
		"gpu.model":               `"gpu" is unknown: did you mean task.requests.gpu`,
	} {
		if _, err := manifest.Explain(path, known()); !types.Is(err, types.NotFound) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q\ngot  %v\nwant %s", path, err, says)
		}
	}
}

func TestExplainPaths(t *testing.T) {
	for word, want := range map[string][]string{
		"": {"job", "job.", "policy."}, "jo": {"job", "job."}, "job.": {"job.pack", "job.pack.", "job.plain", "job.lab", "job.template."},
		"job.pack.ov": {"job.pack.over"}, "job.nothing.x": nil, "task.res": {"task.restart", "task.restart."},
	} {
		got := manifest.ExplainPaths(word, known())
		for _, path := range want {
			if !slices.Contains(got, path) {
				t.Errorf("%q: %q is missing in %q", word, path, got)
			}
		}
		if want == nil && got != nil {
			t.Errorf("%q: %q", word, got)
		}
	}
	if got := manifest.ExplainPaths("job.pl", known()); slices.Contains(got, "job.plain.") {
		t.Errorf("a policy without parameters has fields: %q", got)
	}
}
