package namespace

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/types"
)

// changed applies flags to a namespace.
func changed(t *testing.T, ns *types.Namespace, args ...string) (given bool, err error) {
	t.Helper()
	var n namespaceFlags
	cmd := new(cobra.Command)
	n.Add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return n.Given(), n.apply(ns)
}

// TestSettings changes the given settings alone, and drops a budget of defaults.
func TestSettings(t *testing.T) {
	ns := new(types.Namespace)
	if given, err := changed(t, ns); given || err != nil || ns.Budget != nil {
		t.Errorf("no flags: %t, %+v, %v", given, ns, err)
	}
	if given, err := changed(t, ns, "--max-keys=10", "--max-bytes=1Mi", "--accumulate=false", "--default=cpu=500m,memory=1Gi", "--default-pids=9",
		"--quota=cpu=admin:cpus", "--quota=gpu=admin:gpus"); !given || err != nil {
		t.Fatal(given, err)
	}
	if b := ns.Budget; b == nil || b.Keys != 10 || b.Bytes != 1<<20 || !b.NoAccumulate || ns.Pids != 9 || len(ns.Quotas) != 2 || render.RequestsText(ns.Defaults) != "cpu=0.5,memory=1Gi" {
		t.Errorf("%+v of %+v", ns.Budget, ns)
	}
	if _, err := changed(t, ns, "--max-keys=0", "--max-priority=3", "--quota=none", "--request=slot=1"); err != nil {
		t.Fatal(err)
	}
	if b := ns.Budget; b.Keys != 0 || b.Bytes != 1<<20 || b.Priority == nil || b.Priority.Max != 3 || ns.Quotas != nil || len(ns.Requests) != 1 || len(ns.Defaults) != 2 {
		t.Errorf("%+v of %+v", ns.Budget, ns)
	}
	if _, err := changed(t, ns, "--policy=org:lab=required", "--policy=org:a=allowed"); err != nil || !slices.Equal(ns.Policies, []types.NamespacePolicy{{Name: "org:a"}, {Name: "org:lab", Required: true}}) {
		t.Errorf("policies: %+v, %v", ns.Policies, err)
	}
	if _, err := changed(t, ns, "--policy=none"); err != nil || ns.Policies != nil {
		t.Errorf("no policies: %+v, %v", ns.Policies, err)
	}
	reset := &types.Namespace{Budget: &types.Budget{Bytes: 5, NoAccumulate: true}, Requests: ns.Requests, Defaults: ns.Defaults}
	if _, err := changed(t, reset, "--max-bytes=0", "--accumulate", "--request=none", "--default=none"); err != nil || reset.Budget != nil || reset.Requests != nil || reset.Defaults != nil {
		t.Errorf("back to the defaults: %+v of %+v, %v", reset.Budget, reset, err)
	}
}

func TestSettingsAreRefused(t *testing.T) {
	for arg, says := range map[string]string{
		"--max-bytes=much":     "max-bytes: ",
		"--quota=cpu":          `quota: "cpu" is not resource=amount: write it like gpu=16`,
		"--policy=org:lab":     `policy: "org:lab" is not namespace:name=allowed, nor =required`,
		"--policy=lab=allowed": `policy: "lab" has no namespace`,
		"--policy=org:lab=":    `policies.org:lab: "" is unknown: write allowed, or required`,
		"--default=cpu":        `default: "cpu" is no request`,
		"--request=a=1,a=1":    "request: a is given twice",
		"--request=none,a":     `request: "none" is no request`,
	} {
		if _, err := changed(t, new(types.Namespace), arg); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v, want %q", arg, err, says)
		}
	}
}
