package flagset

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/types"
)

// GpuChoice selects GPUs by flags.
type GpuChoice struct {
	models           []string
	memory, topology string
	flags            *pflag.FlagSet
}

func (g *GpuChoice) Add(flags *pflag.FlagSet) {
	g.flags = flags
	flags.StringSliceVar(&g.models, "gpu-model", nil, "words of the model of each GPU, such as H100, or H100,A100 for either")
	flags.StringVar(&g.memory, "gpu-memory", "", "least memory of each GPU, such as 40Gi")
	flags.StringVar(&g.topology, "gpu-topology", "", "nvlink: all GPUs are linked to each other; numa: all are on one NUMA node")
}

// request makes a device request of the flags, without a resource yet; nil without flags.
func (g *GpuChoice) request() (*types.DeviceRequest, error) {
	if g.Given() == "" {
		return nil, nil
	}
	r := &types.DeviceRequest{Models: g.models}
	if len(g.models) == 0 && g.flags.Changed("gpu-model") {
		return nil, types.Errorf(types.Invalid, "gpu-model: is empty: write a word or two of the model, such as H100, or leave it out")
	}
	for _, m := range g.models {
		if err := types.ValidateModel("gpu-model", m); err != nil {
			return nil, err
		}
	}
	var err error
	if g.flags.Changed("gpu-memory") {
		if r.MinMemory, err = types.ParseSize(g.memory); err != nil {
			return nil, types.Errorf(types.Invalid, "gpu-memory: %w", err)
		}
	}
	if r.Topology, err = types.ParseTopology(g.topology); err != nil {
		return nil, types.Errorf(types.Invalid, "gpu-topology: %w", err)
	}
	return r, nil
}

// Of returns the device requests of the flags for the gpus requested in any of the vectors, also
// through a reservation.
func (g *GpuChoice) Of(vectors ...types.Requests) ([]types.DeviceRequest, error) {
	r, err := g.request()
	if r == nil || err != nil {
		return nil, err
	}
	var out []types.DeviceRequest
	seen := make(map[string]bool)
	for _, v := range vectors {
		for _, x := range v {
			if base, _, _ := strings.Cut(x.Name, "@"); base == string(types.GPU) && !seen[x.Name] {
				seen[x.Name] = true
				one := *r
				one.Resource = x.Name
				out = append(out, one)
			}
		}
	}
	if len(out) == 0 {
		return nil, types.Errorf(types.Invalid, "%s: says which gpu, and none is requested: say how many too, or leave it out", g.Given())
	}
	return out, nil
}

// Choose adds them to the bundles that request gpus, of which there must be some.
func (g *GpuChoice) Choose(bundles []types.Bundle) error {
	var vectors []types.Requests
	for _, b := range bundles {
		vectors = append(vectors, b.Requests)
	}
	all, err := g.Of(vectors...)
	if len(all) == 0 {
		return err
	}
	for i, b := range bundles {
		if b.Requests.Get(string(types.GPU)) > 0 {
			bundles[i].Devices = all
		}
	}
	return nil
}

// Given is the first of the flags that is given, empty if none is.
func (g *GpuChoice) Given() string {
	for _, name := range []string{"gpu-model", "gpu-memory", "gpu-topology"} {
		if g.flags.Changed(name) {
			return name
		}
	}
	return ""
}
