package types

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/escher-sched/escher/types/wire"
)

// DeviceRequest restricts the devices of a request. Models and MinMemory apply to each device,
// Topology to all together.
type DeviceRequest struct {
	// Resource is the name of the request in the vector: gpu, or gpu@train.
	Resource string
	// Models are the allowed models: see MatchesModel. None means any.
	Models []string
	// MinMemory is the least memory of a device, in bytes; 0 means any.
	MinMemory int64
	// Topology is how the devices must be connected. A single device always satisfies it.
	Topology Topology
}

func (r *DeviceRequest) fields(w *wire.Pass) {
	wire.Text(w, 2, &r.Resource)
	wire.Texts(w, 3, &r.Models)
	wire.Integer(w, 4, &r.MinMemory)
	wire.Text(w, 5, &r.Topology)
}

// Topology is how the devices of one request are connected.
type Topology string

// The topologies. With LinkedDevices every device reaches every other directly: see Device.Links.
// With OneNUMA all are on the same, known NUMA node.
const (
	AnyTopology   Topology = ""
	LinkedDevices Topology = "nvlink"
	OneNUMA       Topology = "numa"
)

// Takes reports whether a device has an allowed model and enough memory.
func (r *DeviceRequest) Takes(d *Device) bool {
	if d.MemoryBytes < r.MinMemory {
		return false
	}
	for _, m := range r.Models {
		if MatchesModel(d.Model, m) {
			return true
		}
	}
	return len(r.Models) == 0
}

// Joins reports whether two devices of one node satisfy the topology.
func (r *DeviceRequest) Joins(a, b *Device) bool {
	switch r.Topology {
	case AnyTopology:
		return true
	case OneNUMA:
		return a.NUMA >= 0 && a.NUMA == b.NUMA
	case LinkedDevices:
		for _, x := range a.Links {
			for _, y := range b.Links {
				if x == y {
					return true
				}
			}
		}
	}
	return false // of a later version
}

// MatchesModel reports whether wanted names a model: all words of wanted are words of model, in the
// same order, possibly with others in between. A word consists of letters and digits; case does not
// matter. So "H100" and "nvidia h100 hbm3" name NVIDIA H100 80GB HBM3, "a100-sxm4" names NVIDIA
// A100-SXM4-40GB, and "A10" does not.
func MatchesModel(model, wanted string) bool {
	for want, more := firstWord(wanted); want != ""; want, more = firstWord(more) {
		word, rest := firstWord(model)
		for word != "" && !strings.EqualFold(word, want) {
			word, rest = firstWord(rest)
		}
		if word == "" {
			return false
		}
		model = rest
	}
	return true
}

// firstWord returns the first word of a text, "" if there is none, and the text after it.
func firstWord(text string) (word, rest string) {
	from := 0
	for from < len(text) && !inWord(text[from]) {
		from++
	}
	to := from
	for to < len(text) && inWord(text[to]) {
		to++
	}
	return text[from:to], text[to:]
}

// inWord reports whether a byte is part of a word; every byte outside ASCII counts as a letter.
func inWord(c byte) bool { return isAlnum(c) || c >= utf8.RuneSelf }

// String returns the restrictions in words that follow the amount: "of model H100 or A100, with at
// least 40Gi memory, linked to one another".
func (r *DeviceRequest) String() string {
	var parts []string
	if len(r.Models) > 0 {
		parts = append(parts, "of model "+strings.Join(r.Models, " or "))
	}
	if r.MinMemory > 0 {
		parts = append(parts, "with at least "+Quantity(r.MinMemory).Format(Memory)+" memory")
	}
	switch r.Topology {
	case AnyTopology:
	case LinkedDevices:
		parts = append(parts, "linked to one another")
	case OneNUMA:
		parts = append(parts, "on one NUMA node")
	default:
		parts = append(parts, "of topology "+string(r.Topology))
	}
	return strings.Join(parts, ", ")
}

// deviceRequestText is the JSON form of a DeviceRequest.
type deviceRequestText struct {
	Resource  string   `json:"resource"`
	Models    []string `json:"model,omitempty"`
	MinMemory string   `json:"minMemory,omitempty"`
	Topology  Topology `json:"topology,omitempty"`
}

// MarshalJSON writes the memory as text, such as "40Gi".
func (r DeviceRequest) MarshalJSON() ([]byte, error) {
	t := deviceRequestText{Resource: r.Resource, Models: r.Models, Topology: r.Topology}
	if r.MinMemory != 0 {
		t.MinMemory = Quantity(r.MinMemory).Format(Memory)
	}
	return json.Marshal(t)
}

// UnmarshalJSON reads what MarshalJSON writes. It refuses unknown fields, so that a misspelled one
// does not count as absent.
func (r *DeviceRequest) UnmarshalJSON(data []byte) error {
	var t deviceRequestText
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return Errorf(Invalid, "devices: %w: write it such as {\"resource\": \"gpu\", \"model\": [\"H100\"]}", err)
	}
	*r = DeviceRequest{Resource: t.Resource, Models: t.Models, Topology: t.Topology}
	if t.MinMemory == "" {
		return nil
	}
	bytes, err := ParseSize(t.MinMemory)
	if err != nil {
		return Errorf(Invalid, "minMemory: %w", err)
	}
	r.MinMemory = bytes
	return nil
}

// ParseSize reads a size such as 40Gi, in bytes.
func ParseSize(text string) (int64, error) {
	q, err := ParseQuantity(string(Memory), text)
	switch {
	case err == nil && q > 0 && q <= MaxQuantity:
		return int64(q), nil
	case err != nil && !strings.HasPrefix(text, "-"):
		return 0, Errorf(Invalid, "%s", strings.TrimPrefix(err.Error(), string(Memory)+": "))
	}
	return 0, Errorf(Invalid, "%q is not a size: give more than 0, such as 40Gi, or leave it out", text)
}

// ParseTopology reads nvlink or numa; empty means any. Invalid: any other text.
func ParseTopology(s string) (Topology, error) {
	t := Topology(s)
	if t != AnyTopology && t != LinkedDevices && t != OneNUMA {
		return AnyTopology, Errorf(Invalid, "%q is unknown: use %s or %s, or leave it out", shorten(s), LinkedDevices, OneNUMA)
	}
	return t, nil
}

// validateDevices checks the device requests of one or several request vectors; with several, each
// resource must be in every one.
func validateDevices(field string, devices []DeviceRequest, vectors ...namedRequests) error {
	var errs []error
	if n := len(devices); n > MaxRequests {
		return Errorf(Invalid, "%s: has %d: at most %d are allowed, one for each resource", field, n, MaxRequests)
	}
	seen := make(map[string]bool)
	for i := range devices {
		at, r := index(field, i), &devices[i]
		errs = append(errs, r.validate(at), r.validateIn(at+".resource", vectors))
		if seen[r.Resource] {
			errs = append(errs, Errorf(Invalid, "%s.resource: %q is given twice: put all of it in one entry", at, r.Resource))
		}
		seen[r.Resource] = true
	}
	return joinInvalid(nonNil(errs))
}

// validate checks the request by itself.
func (r *DeviceRequest) validate(field string) error {
	var errs []error
	if n := len(r.Models); n > MaxModels {
		return Errorf(Invalid, "%s.model: has %d: at most %d are allowed, name what they have in common", field, n, MaxModels)
	}
	for j, m := range r.Models {
		errs = append(errs, ValidateModel(index(field+".model", j), m))
	}
	if r.MinMemory < 0 || r.MinMemory > int64(MaxQuantity) {
		errs = append(errs, Errorf(Invalid, "%s.minMemory: %d bytes is not a size: give more than 0, such as 40Gi, or leave it out", field, r.MinMemory))
	}
	if _, err := ParseTopology(string(r.Topology)); err != nil {
		errs = append(errs, Errorf(Invalid, "%s.topology: %w", field, err))
	}
	if len(r.Models) == 0 && r.MinMemory == 0 && r.Topology == AnyTopology {
		errs = append(errs, Errorf(Invalid, "%s: asks for nothing: give model, minMemory or topology, or leave it out", field))
	}
	return joinInvalid(nonNil(errs))
}

// ValidateModel checks words of a model: see MatchesModel.
func ValidateModel(field, model string) error {
	if len(model) > MaxModel {
		return Errorf(Invalid, "%s: %q has %d bytes: at most %d are allowed, a word or two of the model will do", field, shorten(model), len(model), MaxModel)
	}
	if err := validateText(field, model); err != nil {
		return err
	}
	if word, _ := firstWord(model); word == "" {
		return Errorf(Invalid, "%s: %q has no word: write a word or two of the model, such as H100", field, model)
	}
	return nil
}

// namedRequests is a request vector with the name of its field.
type namedRequests struct {
	field string
	Requests
}

// validateIn checks that the resource is requested, and consists of devices.
func (r *DeviceRequest) validateIn(field string, vectors []namedRequests) error {
	if err := validateRequestName(field, r.Resource); err != nil {
		return err
	}
	if !MadeOfDevices(r.Resource) {
		return Errorf(Invalid, "%s: %q is not made of devices: name one that is, such as gpu", field, r.Resource)
	}
	for _, v := range vectors {
		if v.Get(r.Resource) == 0 {
			return Errorf(Invalid, "%s: %q is not requested in %s: request it there, or leave this out", field, r.Resource, v.field)
		}
	}
	return nil
}

// validateDevices checks the device requests of the task.
func (t *Task) validateDevices() error {
	if len(t.Devices) == 0 {
		return nil
	}
	vectors := []namedRequests{{"requests", t.Requests}}
	if len(t.Alternatives) > 0 {
		vectors = vectors[:0]
	}
	for i, a := range t.Alternatives {
		vectors = append(vectors, namedRequests{"requests, nor in " + index("alternatives", i), t.Requests.Plus(a.Requests)})
	}
	return validateDevices("devices", t.Devices, vectors...)
}

// MadeOfDevices reports whether a requested resource, such as gpu or gpu@train, consists of devices.
func MadeOfDevices(request string) bool {
	base, _, _ := strings.Cut(request, "@")
	switch id := ResourceID(base); id {
	case CPU, Memory, Disk, Port:
		return false
	default:
		return !id.IsPlacement() && IsPhysical(base) && !strings.HasPrefix(base, string(Port)+"/")
	}
}
