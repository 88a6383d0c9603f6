package nodeapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/escher-sched/escher/nodeagent/answer"
)

// Usage is what a running attempt uses.
type Usage struct {
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
	// CPUSeconds is the processor time used since its start.
	CPUSeconds float64 `json:"cpuSeconds"`
	// MemoryBytes is what it has now, without what can be dropped at once.
	MemoryBytes int64 `json:"memoryBytes"`
	Processes   int64 `json:"processes"`
}

// usage answers with what each running attempt uses.
func (s *server) usage(w http.ResponseWriter, r *http.Request) {
	used, err := s.Runtime.Usage(r.Context())
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	all := []Usage{}
	for id, a := range s.Agent.Running() {
		if u, ok := used[id]; ok {
			all = append(all, Usage{
				Namespace: a.Namespace, Task: a.Task, Attempt: a.Number,
				CPUSeconds: u.CPU.Seconds(), MemoryBytes: u.MemoryBytes, Processes: u.Processes,
			})
		}
	}
	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Attempt, b.Attempt))
	})
	answer.JSON(w, http.StatusOK, all)
}

// Usage returns what each running attempt of the node uses, by namespace, task and
// attempt.
func (c *Client) Usage(ctx context.Context) ([]Usage, error) {
	var all []Usage
	return all, c.get(ctx, "/v1/usage", &all)
}
