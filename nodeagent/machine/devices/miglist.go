package devices

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// slice is a MIG slice as nvidia-smi -L lists it.
type slice struct {
	uuid, parent string
	// profile is its type, such as 1g.10gb; index its number on its GPU.
	profile string
	index   int
}

// parseList reads the slices that nvidia-smi -L lists:
//
//	GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5d5ba0d6-…)
//	  MIG 3g.40gb     Device  0: (UUID: MIG-2b1e5c9c-…)
//
// Drivers before 470 name slices MIG-GPU-<parent>/<gpu instance>/<compute instance>.
func parseList(text string) []slice {
	gpu := regexp.MustCompile(`^GPU\s+\d+:.*\(UUID: (GPU-[^)]+)\)`)
	mig := regexp.MustCompile(`^\s+MIG\s+(\S+)\s+Device\s+(\d+):\s+\(UUID: (MIG-[^)]+)\)`)
	var all []slice
	parent := ""
	for _, line := range strings.Split(text, "\n") {
		if m := gpu.FindStringSubmatch(line); m != nil {
			parent = m[1]
		}
		if m := mig.FindStringSubmatch(line); m != nil && parent != "" {
			index, err := strconv.Atoi(m[2])
			if err == nil {
				all = append(all, slice{uuid: m[3], parent: parent, profile: m[1], index: index})
			}
		}
	}
	return all
}

// resource returns the resource of a slice: nvidia.com/mig-1g.10gb, as in the device plugin of
// Kubernetes. Slices with extras, such as 1g.10gb+me, are another resource.
func (s *slice) resource() types.ResourceID {
	return types.ResourceID("nvidia.com/mig-" + strings.ReplaceAll(s.profile, "+", "."))
}
