package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/types"
)

// gpuChoice says which GPUs are wanted.
type gpuChoice struct {
	models           []string
	memory, topology string
	flags            *pflag.FlagSet
}

func (g *gpuChoice) add(flags *pflag.FlagSet) {
	g.flags = flags
	flags.StringSliceVar(&g.models, "gpu-model", nil, "words of the model of each gpu, such as H100; of several, H100,A100, any will do")
	flags.StringVar(&g.memory, "gpu-memory", "", "memory that each gpu has at least, such as 40Gi")
	flags.StringVar(&g.topology, "gpu-topology", "", "nvlink: each gpu is linked to each; numa: all are on one NUMA node")
}

// request makes what the flags say, of no resource yet; nil if they say nothing.
func (g *gpuChoice) request() (*types.DeviceRequest, error) {
	if g.given() == "" {
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
		if r.MinMemory, err = types.ParseDeviceMemory(g.memory); err != nil {
			return nil, types.Errorf(types.Invalid, "gpu-memory: %w", err)
		}
	}
	if r.Topology, err = types.ParseTopology(g.topology); err != nil {
		return nil, types.Errorf(types.Invalid, "gpu-topology: %w", err)
	}
	return r, nil
}

// of returns what the flags say of the gpus that are requested in any of the vectors, also
// of those that are drawn from a reservation.
func (g *gpuChoice) of(vectors ...types.Requests) ([]types.DeviceRequest, error) {
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
		return nil, types.Errorf(types.Invalid, "%s: says which gpu, and none is requested: say how many too, or leave it out", g.given())
	}
	return out, nil
}

// choose says it of the bundles that request gpus, of which there must be some.
func (g *gpuChoice) choose(bundles []types.Bundle) error {
	var vectors []types.Requests
	for _, b := range bundles {
		vectors = append(vectors, b.Requests)
	}
	all, err := g.of(vectors...)
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

// given is the first of the flags that is given, empty if none is.
func (g *gpuChoice) given() string {
	for _, name := range []string{"gpu-model", "gpu-memory", "gpu-topology"} {
		if g.flags.Changed(name) {
			return name
		}
	}
	return ""
}

// devicesText says which devices are wanted, a text for each resource.
func devicesText(requests []types.DeviceRequest) []string {
	var out []string
	for i := range requests {
		out = append(out, fmt.Sprintf("%s %s", requests[i].Resource, &requests[i]))
	}
	return out
}

// needsText is requestsText, with which devices are wanted.
func needsText(requests types.Requests, devices []types.DeviceRequest) string {
	texts := devicesText(devices)
	if text := requestsText(requests); text != "" {
		texts = append([]string{text}, texts...)
	}
	return strings.Join(texts, "; ")
}
