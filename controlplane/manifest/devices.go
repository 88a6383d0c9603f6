package manifest

import (
	"encoding/json"

	"github.com/escher-sched/escher/types"
)

// DeviceMemory is the memory of a device in bytes, with a text form: "40Gi".
type DeviceMemory int64

// MarshalJSON encodes it as text.
func (m DeviceMemory) MarshalJSON() ([]byte, error) {
	return json.Marshal(types.Quantity(m).Format(types.Memory))
}

// UnmarshalJSON decodes text.
func (m *DeviceMemory) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return types.Errorf(types.Invalid, "%s is not a size of a device's memory: write it such as 40Gi", text)
	}
	bytes, err := types.ParseDeviceMemory(s)
	*m = DeviceMemory(bytes)
	return err
}

// deviceRequests converts device requests to the client's form.
func deviceRequests(devices []Devices) []types.DeviceRequest {
	var out []types.DeviceRequest
	for _, d := range devices {
		out = append(out, types.DeviceRequest{Resource: d.Resource, Models: d.Model, MinMemory: int64(d.MinMemory), Topology: d.Topology})
	}
	return out
}

// fromDeviceRequests is the inverse of deviceRequests.
func fromDeviceRequests(requests []types.DeviceRequest) []Devices {
	var out []Devices
	for _, r := range requests {
		out = append(out, Devices{Resource: r.Resource, Model: r.Models, MinMemory: DeviceMemory(r.MinMemory), Topology: r.Topology})
	}
	return out
}
