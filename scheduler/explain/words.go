package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/types"
)

// The words of explanations.

// nameOf is the name of a resource as seen from a namespace.
func nameOf(ns string, rid types.ResourceID) string {
	if rid.IsPlacement() {
		return strings.Replace(string(rid), "/", " ", 1)
	}
	if number, ok := rid.FixedPort(); ok {
		return fmt.Sprintf("port %d", number)
	}
	if rid == types.Port {
		return "ports"
	}
	return rid.In(ns)
}

// amountOf is an amount with the resource name.
func amountOf(ns string, rid types.ResourceID, q types.Quantity) string {
	_, fixed := rid.FixedPort()
	switch {
	case fixed || rid.IsPlacement():
		return nameOf(ns, rid)
	case rid == types.Port && q == match.Whole:
		return "1 port"
	}
	return q.Format(rid) + " " + nameOf(ns, rid)
}

// ref is the name of a task or reservation as seen from a namespace.
func ref(ns string, id cluster.ID) string {
	if id.Namespace == ns {
		return id.ID
	}
	return id.String()
}

// command is a command about a task or reservation, ready to paste.
func command(ns, verb string, id cluster.ID) string {
	if id.Namespace == ns {
		return "escher " + verb + " " + id.ID
	}
	return "escher " + verb + " " + id.ID + " --namespace " + id.Namespace
}

// count is a number with its noun.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// is is the verb for a number.
func is(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// listed joins a few names: "a", "a and b", "a, b, c and 4 more".
func listed(names []string) string {
	const shown = 3
	switch {
	case len(names) == 0:
		return ""
	case len(names) == 1:
		return names[0]
	case len(names) <= shown:
		return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// inWords is a readable duration.
func inWords(d time.Duration) string {
	if d < time.Second {
		return "1s"
	}
	text := d.Round(time.Second).String()
	if d >= time.Hour {
		text = d.Round(time.Minute).String()
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func names(nodes []*cluster.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}
