package flagset

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

func vector(amounts map[string]types.Quantity) types.Requests { return types.NewRequests(amounts) }

// TestGPUChoice makes one device request for each gpu of the vectors, also through a reservation.
func TestGPUChoice(t *testing.T) {
	vectors := []types.Requests{
		vector(map[string]types.Quantity{"cpu": 1000, "gpu": 1000}), vector(map[string]types.Quantity{"gpu": 2000, "gpu@train": 1000}),
	}
	for _, x := range []struct {
		args    []string
		vectors []types.Requests
		want    string
		says    string
	}{
		{vectors: vectors},
		{args: []string{"--gpu-model=H100,A100", "--gpu-memory=40Gi"}, vectors: vectors, want: "gpu of model H100 or A100, with at least 40Gi memory; gpu@train of model H100 or A100, with at least 40Gi memory"},
		{args: []string{"--gpu-topology=numa"}, vectors: vectors[:1], want: "gpu on one NUMA node"},
		{args: []string{"--gpu-topology=nvlink"}, says: "gpu-topology: says which gpu, and none is requested"},
		{args: []string{"--gpu-memory=1Gi"}, vectors: []types.Requests{vector(map[string]types.Quantity{"gpus": 1000})}, says: "gpu-memory: says which gpu"},
		{args: []string{"--gpu-model="}, vectors: vectors, says: "gpu-model: is empty: write a word or two"},
		{args: []string{"--gpu-memory="}, vectors: vectors, says: "gpu-memory: "},
		{args: []string{"--gpu-memory=much"}, vectors: vectors, says: "gpu-memory: "},
		{args: []string{"--gpu-topology=ring"}, vectors: vectors, says: "gpu-topology: "},
	} {
		var g GpuChoice
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		g.Add(flags)
		if err := flags.Parse(x.args); err != nil {
			t.Fatal(err)
		}
		requests, err := g.Of(x.vectors...)
		var got []string
		for _, r := range requests {
			got = append(got, r.Resource+" "+r.String())
		}
		if strings.Join(got, "; ") != x.want || (err == nil) != (x.says == "") || err != nil && (!types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), x.says)) {
			t.Errorf("%q: %q, %v", x.args, got, err)
		}
	}
}

// TestGPUsOfBundles adds the choice to the bundles with gpus only.
func TestGPUsOfBundles(t *testing.T) {
	var g GpuChoice
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	g.Add(flags)
	bundles := []types.Bundle{{Requests: vector(map[string]types.Quantity{"cpu": 1000})}, {Requests: vector(map[string]types.Quantity{"gpu": 1000})}}
	if err := g.Choose(bundles); err != nil || bundles[1].Devices != nil {
		t.Errorf("without flags: %+v, %v", bundles, err)
	}
	if err := flags.Parse([]string{"--gpu-model=L4"}); err != nil {
		t.Fatal(err)
	}
	if err := g.Choose(bundles); err != nil || bundles[0].Devices != nil || len(bundles[1].Devices) != 1 {
		t.Errorf("%+v, %v", bundles, err)
	}
	if err := g.Choose(bundles[:1]); !types.Is(err, types.Invalid) {
		t.Errorf("without gpus: %v", err)
	}
}

// TestPlaces takes one kind of place.
func TestPlaces(t *testing.T) {
	for _, x := range []struct {
		args []string
		want types.Selector
		says string
	}{
		{args: []string{"--all"}},
		{args: []string{"--cluster"}},
		{args: []string{"--node=a", "--node=b"}, want: types.Selector{Nodes: []string{"a", "b"}}},
		{args: []string{"--selector=zone=a,rack=1"}, want: types.Selector{Labels: []types.Label{{Name: "rack", Value: "1"}, {Name: "zone", Value: "a"}}}},
		{args: []string{"--all", "--cluster"}, says: "place: --all, --cluster and a choice of nodes exclude one another: give one"},
		{args: []string{"--all", "--node=a"}, says: "place: "},
		{args: []string{"--cluster", "--available=cpu=1"}, says: "place: "},
		{args: []string{"--selector=zone!=a"}, says: `selector: "zone!=a" has more than labels with their values`},
		{args: []string{"--selector=="}, says: "selector: "},
		{args: []string{"--available=cpu"}, says: `available: "cpu" is no request`},
	} {
		var p PlaceFlags
		cmd := new(cobra.Command)
		p.Add(cmd)
		if p.Given() {
			t.Error("a place is given before any")
		}
		if err := cmd.ParseFlags(x.args); err != nil || !p.Given() {
			t.Fatal(x.args, err)
		}
		sel, err := p.Selector()
		slices.SortFunc(sel.Labels, func(a, b types.Label) int { return strings.Compare(a.Name, b.Name) })
		switch {
		case x.says != "":
			if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), x.says) {
				t.Errorf("%q: %v", x.args, err)
			}
		case err != nil || !slices.Equal(sel.Nodes, x.want.Nodes) || !slices.Equal(sel.Labels, x.want.Labels):
			t.Errorf("%q: %+v, %v", x.args, sel, err)
		}
	}
}

// TestIsolation copies each limit, and reports all wrong ones at once.
func TestIsolation(t *testing.T) {
	isolate := func(args ...string) (types.Spec, string, error) {
		var i IsolationFlags
		var told strings.Builder
		var out types.Spec
		cmd := new(cobra.Command)
		i.Add(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			return out, "", err
		}
		err := i.Isolate(&cmdutil.Factory{Outside: cmdutil.Outside{Err: &told}}, &out)
		return out, told.String(), err
	}
	spec, told, err := isolate("--pids-limit=7", "--cpu-burst", "--cap-add=net_admin", "--cap-drop=ALL", "--read-only", "--socket=self", "--shm-size=1Gi",
		"--tmpfs=/t:size=1Mi", "--ulimit=nofile=10:20", "--ulimit=memlock=-1")
	if err != nil || told != "" || spec.Pids != 7 || spec.CPULimit != types.CPUNone || !spec.ReadOnlyRoot || spec.Privileged || spec.Shm != 1<<30 || len(spec.Tmpfs) != 1 {
		t.Errorf("%+v, %q, %v", spec, told, err)
	}
	if len(spec.Ulimits) != 2 || spec.Ulimits[0].Name != "memlock" || spec.CapAdd[0] != "NET_ADMIN" || spec.CapDrop[0] != "ALL" || spec.Socket != types.SocketSelf {
		t.Errorf("%+v", spec)
	}
	if spec, told, err := isolate("--cpu-limit=none"); err != nil || spec.CPULimit != types.CPUNone || !strings.Contains(told, "--cpu-limit none is --cpu-burst now") {
		t.Errorf("the former flag: %+v, %q, %v", spec, told, err)
	}
	if _, _, err := isolate("--pids-limit=0"); err == nil || !strings.Contains(err.Error(), "pids-limit: 0 is out of range") {
		t.Errorf("no processes: %v", err)
	}
	_, _, err = isolate("--cap-add=FLY", "--cap-drop=DIG", "--socket=all", "--shm-size=x", "--tmpfs=/t:size=x", "--ulimit=nofile")
	for _, field := range []string{"cap-add: ", "cap-drop: ", "socket: ", "shm", "tmpfs", "ulimit"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want an error of %s", err, field)
		}
	}
}

func TestLogging(t *testing.T) {
	for _, x := range []struct {
		flags LoggingFlags
		says  string
	}{
		{LoggingFlags{"console", "warn"}, ""},
		{LoggingFlags{"json", "debug"}, ""},
		{LoggingFlags{"xml", "info"}, `log-format: "xml" is unknown: use console or json`},
		{LoggingFlags{"json", "loud"}, `log-level: "loud" is unknown: use debug, info, warn or error`},
		{LoggingFlags{"json", "fatal"}, `log-level: "fatal" is unknown`},
	} {
		var out strings.Builder
		log, err := x.flags.Logger(&cmdutil.Factory{Outside: cmdutil.Outside{Err: &out}})
		if (err == nil) != (x.says == "") || err != nil && (!types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), x.says)) {
			t.Errorf("%+v: %v", x.flags, err)
		}
		if err != nil {
			continue
		}
		log.Info("hello")
		log.Error("trouble")
		if text := out.String(); !strings.Contains(text, "trouble") || strings.Contains(text, "hello") != (x.flags.Level == "debug") || strings.HasPrefix(text, "{") != (x.flags.Format == "json") {
			t.Errorf("%+v: %s", x.flags, text)
		}
	}
}
