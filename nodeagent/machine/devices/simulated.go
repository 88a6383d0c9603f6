package devices

import (
	"fmt"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/escher-sched/escher/types"
)

// Simulated are GPUs that do not exist: to try policies without hardware.
type Simulated struct {
	Count int
	Model string
	// MemoryBytes is the memory of each.
	MemoryBytes int64
	// Links is which of them are linked: all, pairs or none.
	Links string
	// NUMA is the number of NUMA nodes over which they are spread.
	NUMA int
}

// maxSimulated limits the number per node.
const maxSimulated = 64

// ParseSimulated parses COUNT[,model=NAME][,memory=AMOUNT][,links=all|pairs|none][,numa=NODES].
// Invalid: the error names what is wrong.
func ParseSimulated(text string) (Simulated, error) {
	count, rest, _ := strings.Cut(text, ",")
	s := Simulated{Model: "Simulated", MemoryBytes: 80 << 30, Links: "all", NUMA: 1}
	wrong := func(format string, args ...any) (Simulated, error) {
		return Simulated{}, types.Errorf(types.Invalid, "gpus: %q: %s: write it like 8,model=H100,memory=80Gi,links=pairs,numa=2", text, fmt.Sprintf(format, args...))
	}
	var err error
	if s.Count, err = strconv.Atoi(count); err != nil || s.Count < 0 || s.Count > maxSimulated {
		return wrong("%q is no number from 0 to %d", count, maxSimulated)
	}
	for _, part := range strings.FieldsFunc(rest, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "model":
			if s.Model = strings.TrimSpace(value); s.Model == "" {
				return wrong("model is empty")
			}
		case "memory":
			q, err := types.ParseQuantity(string(types.Memory), value)
			if err != nil || q <= 0 || q > types.MaxQuantity {
				return wrong("memory %q is no amount", value)
			}
			s.MemoryBytes = int64(q)
		case "links":
			if s.Links = value; value != "all" && value != "pairs" && value != "none" {
				return wrong("links are all, pairs or none, not %q", value)
			}
		case "numa":
			if s.NUMA, err = strconv.Atoi(value); err != nil || s.NUMA < 1 || s.NUMA > maxSimulated {
				return wrong("numa %q is no number of nodes", value)
			}
		default:
			return wrong("%q is unknown", name)
		}
	}
	return s, nil
}

// simulatedKind is their CDI class.
const simulatedKind = "escher.dev/gpu"

// Devices returns the devices of one of a machine's nodes.
func (s Simulated) Devices(node string) Fixed {
	var all Fixed
	for i := range s.Count {
		d := types.Device{
			ID: fmt.Sprintf("%s=%s-gpu%d", simulatedKind, node, i), Resource: types.GPU,
			Model: s.Model, MemoryBytes: s.MemoryBytes, NUMA: i * s.NUMA / s.Count,
		}
		switch s.Links {
		case "all":
			d.Links = []string{"nvlink0"}
		case "pairs":
			d.Links = []string{fmt.Sprintf("nvlink%d", i/2*2)}
		}
		all = append(all, d)
	}
	return all
}

// Spec returns the CDI specification of the devices of some nodes, so that tasks can start with
// them. It only sets ESCHER_SIMULATED_DEVICES=true in the environment.
func (s Simulated) Spec(nodes []string) *specs.Spec {
	spec := &specs.Spec{Version: "0.5.0", Kind: simulatedKind}
	for _, node := range nodes {
		for _, d := range s.Devices(node) {
			_, name, _ := strings.Cut(d.ID, "=")
			spec.Devices = append(spec.Devices, specs.Device{
				Name: name, ContainerEdits: specs.ContainerEdits{Env: []string{"ESCHER_SIMULATED_DEVICES=true"}},
			})
		}
	}
	return spec
}
