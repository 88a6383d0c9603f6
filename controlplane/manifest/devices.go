package manifest

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// Size is a number of bytes with a text form: "40Gi".
type Size int64

// MarshalJSON encodes it as text.
func (m Size) MarshalJSON() ([]byte, error) {
	return json.Marshal(types.Quantity(m).Format(types.Memory))
}

// UnmarshalJSON decodes text.
func (m *Size) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return types.Errorf(types.Invalid, "%s is not a size: write it such as 40Gi", text)
	}
	bytes, err := types.ParseSize(s)
	*m = Size(bytes)
	return err
}

// DeviceAmount is the long form of a requested amount of devices: the amount, and restrictions.
type DeviceAmount struct {
	Count    types.Amount   `json:"count" desc:"how many, or a fraction of one"`
	Model    Models         `json:"model,omitempty" desc:"words of its model, such as H100; any of several in a list"`
	Memory   Size           `json:"memory,omitempty" desc:"the least memory of each, such as 40Gi"`
	Topology types.Topology `json:"topology,omitempty" desc:"nvlink: all are linked to each other; numa: all are on one NUMA node"`
}

// restricted is an object whose requests may have the long form: the restrictions become Devices.
type restricted interface{ restrictions() *[]Devices }

func (t *Task) restrictions() *[]Devices   { return &t.Devices }
func (b *Bundle) restrictions() *[]Devices { return &b.Devices }

// longForms decodes the requests in long form below path, and returns the requests in short form
// with the restrictions. The restrictions follow those of the field devices, of which there are n.
func (d *decoder) longForms(requests *yaml.Node, n int, path string) (short *yaml.Node, out []Devices) {
	if requests.Kind != yaml.MappingNode {
		return requests, nil
	}
	made := *requests
	made.Content = nil
	for i := 0; i+1 < len(requests.Content); i += 2 {
		key, value := requests.Content[i], requests.Content[i+1]
		if value.Kind != yaml.MappingNode {
			made.Content = append(made.Content, key, value)
			continue
		}
		var long DeviceAmount
		at, before := below(below(path, "requests"), key.Value), len(d.problems)
		if d.object(value, reflect.ValueOf(&long).Elem(), at); len(d.problems) > before {
			continue
		}
		if !types.MadeOfDevices(key.Value) {
			d.wrongValue(value, at, "%q is not made of devices: write its amount alone", key.Value)
			continue
		}
		if q, err := types.ParseQuantity(key.Value, string(long.Count)); err != nil || q <= 0 {
			if err == nil {
				err = types.Errorf(types.Invalid, "%s: %s is not positive: give how many, or leave the request out", key.Value, long.Count)
			}
			_, text, _ := strings.Cut(err.Error(), ": ")
			d.wrongValue(valueOf(value, "count"), below(at, "count"), "%s", text)
			continue
		}
		amount := *written(string(long.Count))
		amount.Line = value.Line
		made.Content = append(made.Content, key, &amount)
		if len(long.Model) == 0 && long.Memory == 0 && long.Topology == "" {
			continue
		}
		canonical := below(path, "devices") + "[" + strconv.Itoa(n+len(out)) + "]"
		d.spelled(canonical, at)
		d.spelled(canonical+".resource", at)
		d.spelled(canonical+".minMemory", at+".memory")
		out = append(out, Devices{Resource: key.Value, Model: long.Model, MinMemory: long.Memory, Topology: long.Topology})
	}
	return &made, out
}

// amounts reports whether requests have amounts alone, and adds a problem for each other value.
func (d *decoder) amounts(n *yaml.Node, path string) bool {
	ok := true
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if key, value := n.Content[i], n.Content[i+1]; value.Kind != yaml.ScalarNode {
			d.wrong(value, below(path, key.Value), "%s is given: write an amount, such as 1; only requests of a task and of a bundle have a count and a model", shown(value))
			ok = false
		}
	}
	return ok
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
		out = append(out, Devices{Resource: r.Resource, Model: r.Models, MinMemory: Size(r.MinMemory), Topology: r.Topology})
	}
	return out
}
