package devices

import (
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"

	"github.com/escher-sched/escher/types"
)

// wholeDevice is the amount of one whole device.
const wholeDevice types.Quantity = 1000

// anyName means all devices of a class.
const anyName = "*"

// Named are devices to offer other than the GPUs that the Finder finds itself.
type Named struct {
	// Class is vendor.com/class of the Container Device Interface. Name is the name of a device in
	// it, or * for all.
	Class, Name string
	// Resource is the resource of each device.
	Resource types.ResourceID
}

// ParseNamed parses acme.com/fpga=card0, acme.com/fpga=* or, for another resource than the class's
// name, intel.com/gpu=*,as=gpu. Invalid: the error names what is wrong.
func ParseNamed(text string) (Named, error) {
	device, resource, other := strings.Cut(text, ",as=")
	class, name, ok := strings.Cut(device, "=")
	n := Named{Class: class, Name: name, Resource: types.ResourceID(class)}
	if other {
		n.Resource = types.ResourceID(resource)
	}
	vendor, kind := parser.ParseQualifier(class)
	if !ok || parser.ValidateVendorName(vendor) != nil || parser.ValidateClassName(kind) != nil ||
		name != anyName && parser.ValidateDeviceName(name) != nil {
		return Named{}, types.Errorf(types.Invalid, "device: %q is no device of the CDI: write it like acme.com/fpga=card0, or acme.com/fpga=* for all of a class", text)
	}
	switch {
	case n.Resource == types.CPU || n.Resource == types.Memory || n.Resource == types.Disk || n.Resource == types.Port || isFixedPort(n.Resource):
		return Named{}, types.Errorf(types.Invalid, "device: %q: %s is not made of devices: give ,as=gpu or a name with a domain such as acme.com/fpga", text, n.Resource)
	case !types.IsPhysical(string(n.Resource)) || n.Resource.IsPlacement():
		return Named{}, types.Errorf(types.Invalid, "device: %q: %q is not physical: give ,as=gpu or a name with a domain such as acme.com/fpga", text, n.Resource)
	}
	if allow, ok := n.Resource.Permit(); ok {
		return Named{}, types.Errorf(types.Invalid, "device: %q: %s is what %s permits, no device: give ,as=gpu or a name with a domain of yours such as acme.com/fpga", text, n.Resource, allow)
	}
	one := types.Requests{{Name: string(n.Resource), Amount: wholeDevice}}
	return n, one.Validate("device " + device)
}

func isFixedPort(id types.ResourceID) bool {
	_, is := id.FixedPort()
	return is
}

// find returns the existing devices.
func (n *Named) find(specs []described, known []types.Device) []found {
	var all []found
	if n.Name == anyName {
		specs = ofClass(specs, n.Class, known)
	}
	for _, d := range specs {
		if d.class != n.Class || n.Name != anyName && d.name != n.Name {
			continue
		}
		all = append(all, found{Device: types.Device{ID: d.id(), Resource: n.Resource, NUMA: unknownNUMA}})
	}
	if len(all) == 0 && n.Name != anyName {
		// A requested device that is missing must be visible.
		all = append(all, found{Device: types.Device{
			ID: n.Class + "=" + n.Name, Resource: n.Resource, NUMA: unknownNUMA,
			Unhealthy: "no CDI specification describes it: give one in /etc/cdi, or in another cdi-dir of the agent",
		}})
	}
	return all
}
