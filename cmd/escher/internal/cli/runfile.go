package cli

import (
	"io"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/tasksocket"
	"github.com/escher-sched/escher/types"
)

// readLaunch reads tasks from a YAML or JSON file, "-" being the input. Its fields
// are those of the task API; one that is unknown is refused.
func readLaunch(f *Factory, path string) (job *controlplane.Job, subs []controlplane.Submission, err error) {
	var text []byte
	if path == "-" {
		text, err = io.ReadAll(f.In)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, nil, types.Errorf(types.Invalid, "file: %w: name a YAML file that describes tasks", err)
	}
	var l tasksocket.Launch
	if err := yaml.UnmarshalStrict(text, &l); err != nil {
		return nil, nil, types.Errorf(types.Invalid, "file %s: %w: correct it; docs/task-api.md lists the fields", path, err)
	}
	if len(l.Tasks) == 0 {
		return nil, nil, types.Errorf(types.Invalid, "file %s: tasks: there is none: list at least one", path)
	}
	if subs, err = l.Submissions(); err != nil {
		return nil, nil, types.Errorf(types.Invalid, "file %s: %w", path, err)
	}
	if l.Job != nil {
		job = &controlplane.Job{ID: l.Job.ID, Name: l.Job.Name}
	}
	return job, subs, nil
}
