package order

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/turn"
)

// frontier are the policies along which the mean wait is traded for the longest one: how long a gang waits
// before it collects, and how long a job waits under shortest until it counts as half as long.
func frontier() []policy {
	all := []policy{{name: "default"}}
	for _, after := range []string{"30s", "10m", "1h", "4h", "12h", "48h"} {
		all = append(all, policy{name: "collect-after-" + after, after: hours(after)})
	}
	all = append(all, policy{name: "collect-never", after: never})
	for _, every := range []string{"30m", "1h", "2h", "4h", "8h", "16h"} {
		p := turn.Shortest{Every: manifest.Duration(hours(every))}
		all = append(all, policy{name: "shortest-every-" + every, limited: true, of: func(job) []esl.Policy { return []esl.Policy{p} }})
	}
	return all
}

// hours reads a duration of the list above, which its test has read before.
func hours(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

// measureFrontier runs every workload under the policies of the frontier, next to the base and to shortest
// without a cluster.
func measureFrontier(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	var rivals []discipline
	for _, d := range disciplines() {
		if d.name == base || d.name == "sjf" || d.name == "fifo" {
			rivals = append(rivals, d)
		}
	}
	return compare(ctx, cfg, rivals, frontier())
}
