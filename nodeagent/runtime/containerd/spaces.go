package containerd

import (
	"context"
	"slices"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	"github.com/escher-sched/escher/nodeagent"
)

// Space is a containerd namespace with containers of Escher.
type Space struct {
	Name       string
	Containers []nodeagent.Observed
}

// Spaces returns the namespaces of a daemon that have containers of Escher, of any cluster and
// node, sorted by name. Of a container it sets the id, the attempt, and whether its process exists.
// It changes nothing.
func Spaces(ctx context.Context, address string) ([]Space, error) {
	c, err := connect(address, "default")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	names, err := c.NamespaceService().List(ctx)
	if err != nil {
		return nil, classify(err, "list the namespaces of containerd")
	}
	slices.Sort(names)
	var all []Space
	for _, name := range names {
		in := namespaces.WithNamespace(ctx, name)
		records, err := c.ContainerService().List(in, "labels."+`"`+labelCluster+`"`)
		if err != nil {
			return nil, classify(err, "list the containers of namespace %s", name)
		}
		if len(records) == 0 {
			continue
		}
		listed, err := c.TaskService().List(in, &tasks.ListTasksRequest{})
		if err != nil {
			return nil, classify(native(err), "list the processes of namespace %s", name)
		}
		space := Space{Name: name}
		for _, record := range records {
			attempt, err := attemptOf(record.Labels)
			if err != nil {
				continue // another program uses our label
			}
			runs := slices.ContainsFunc(listed.Tasks, func(p *task.Process) bool {
				return p.ID == record.ID && p.Status != task.Status_STOPPED
			})
			space.Containers = append(space.Containers, nodeagent.Observed{ID: record.ID, Attempt: attempt, Running: runs})
		}
		all = append(all, space)
	}
	return all, nil
}
