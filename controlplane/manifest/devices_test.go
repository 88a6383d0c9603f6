package manifest_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

func TestWhichDevices(t *testing.T) {
	const devices = "devices:\n- {resource: gpu, model: [H100, A100], minMemory: 40Gi, topology: nvlink}\n- {resource: gpu@train, minMemory: 1024B}\n"
	task := head(manifest.KindTask) + "name: a\nrequests: {gpu: 4, gpu@train: 1}\n" + devices + "spec: {image: img}\n"
	reservation := head(manifest.KindReservation) + "name: r\nbundles:\n- requests: {gpu: 4}\n  node: n1\n  devices: [{resource: gpu, topology: numa}]\n- requests: {cpu: 1}\n"
	docs, err := manifest.Parse("f", []byte(task+"---\n"+reservation), nil)
	if err != nil || !admits(t, compiled(t), task+"\n---\n"+reservation) {
		t.Fatal(err)
	}
	want := []types.DeviceRequest{
		{Resource: "gpu", Models: []string{"H100", "A100"}, MinMemory: 40 << 30, Topology: types.LinkedDevices},
		{Resource: "gpu@train", MinMemory: 1024},
	}
	s, err := docs[0].Task.Submission(time.Unix(5, 0))
	if err != nil || !reflect.DeepEqual(s.Task.Devices, want) {
		t.Errorf("got %+v, %v, want %+v", s.Task.Devices, err, want)
	}
	if back := manifest.FromSubmission(s); !reflect.DeepEqual(back.Devices, docs[0].Task.Devices) {
		t.Errorf("came back as %+v", back.Devices)
	}
	text, err := json.Marshal(docs[0].Task.Devices)
	if want := `[{"resource":"gpu","model":["H100","A100"],"minMemory":"40Gi","topology":"nvlink"},{"resource":"gpu@train","minMemory":"1Ki"}]`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	r := docs[1].Reservation.Reservation()
	if b := r.Bundles[0]; b.Node != "n1" || !reflect.DeepEqual(b.Devices, []types.DeviceRequest{{Resource: "gpu", Topology: types.OneNUMA}}) || r.Bundles[1].Devices != nil {
		t.Errorf("got %+v", r.Bundles)
	}
}

// Parse and the schema both refuse some of these, and Parse alone the others.
func TestWrongDevices(t *testing.T) {
	s := compiled(t)
	for text, tt := range map[string]struct {
		says string
		both bool
	}{
		"{resource: gpu, models: [H100]}":                          {"devices[0].models: is unknown: did you mean model?", true},
		"{resource: gpu, model: H100}":                             {`devices[0].model: "H100" is given: write a list`, true},
		"{resource: gpu, topology: ring}":                          {`devices[0].topology: "ring" is unknown: use nvlink or numa`, true},
		"{topology: numa}":                                         {"devices[0].resource: is missing", true},
		"{resource: gpu, minMemory: [1]}":                          {"devices[0].minMemory: [1] is not a size", true},
		"{resource: gpu, minMemory: 0}":                            {"devices[0].minMemory: 0 is not a size: write it such as 40Gi", true},
		"{resource: gpu, minMemory: \"0\"}":                        {`devices[0].minMemory: "0" is not a size: give more than 0`, false},
		"{resource: gpu, minMemory: \"40\"}":                       {`devices[0].minMemory: "40" has no unit: write 40Mi`, false},
		"{resource: gpu, minMemory: much}":                         {`devices[0].minMemory: "much" is not a quantity`, false},
		"{resource: gpu}":                                          {"devices[0]: asks for nothing", false},
		"{resource: tpu, topology: numa}":                          {`devices[0].resource: "tpu" is not made of devices`, false},
		"{resource: acme.com/tpu, topology: numa}":                 {`devices[0].resource: "acme.com/tpu" is not requested in requests`, false},
		"{resource: gpu, model: [H100, \"\"]}":                     {`devices[0].model[1]: "" has no word`, false},
		"{resource: gpu, model: [a]}, {resource: gpu, model: [b]}": {`devices[1].resource: "gpu" is given twice`, false},
	} {
		task := head(manifest.KindTask) + "name: a\nrequests: {gpu: 4}\nspec: {image: img}\ndevices: [" + text + "]\n"
		_, err := manifest.Parse("f", []byte(task), nil)
		refused(t, err, task, "f:6: "+tt.says)
		if tt.both && admits(t, s, task) {
			t.Errorf("the schema admits\n%s", task)
		}
	}
}

// TestDevicesInRequests checks that the long form of a request means the amount and a restriction,
// which follows those of devices.
func TestDevicesInRequests(t *testing.T) {
	task := head(manifest.KindTask) + "name: a\nrequests:\n  cpu: 1\n  gpu: {count: 8, model: H100, memory: 40Gi, topology: nvlink}\n" +
		"  acme.com/tpu: {count: 500m, model: [v5, v6]}\n  gpu@train: {count: 2}\n  acme.com/npu: 1\ndevices: [{resource: acme.com/npu, model: [x]}]\nspec: {image: img}\n"
	reservation := head(manifest.KindReservation) + "name: r\nbundles: [{requests: {gpu: {count: 4, topology: numa}}}]\n"
	docs, err := manifest.Parse("f", []byte(task+"---\n"+reservation), nil)
	if err != nil || !admits(t, compiled(t), task+"\n---\n"+reservation) {
		t.Fatal(err)
	}
	s, err := docs[0].Task.Submission(time.Unix(5, 0))
	want := []types.DeviceRequest{
		{Resource: "acme.com/npu", Models: []string{"x"}},
		{Resource: "gpu", Models: []string{"H100"}, MinMemory: 40 << 30, Topology: types.LinkedDevices},
		{Resource: "acme.com/tpu", Models: []string{"v5", "v6"}},
	}
	if err != nil || !reflect.DeepEqual(s.Task.Devices, want) {
		t.Errorf("got %+v, %v, want %+v", s.Task.Devices, err, want)
	}
	for name, want := range map[string]types.Quantity{"cpu": 1000, "gpu": 8000, "acme.com/tpu": 500, "gpu@train": 2000, "acme.com/npu": 1000} {
		if got := s.Task.Requests.Get(name); got != want {
			t.Errorf("%d of %s are requested, want %d", got, name, want)
		}
	}
	if b := docs[1].Reservation.Reservation().Bundles[0]; b.Requests.Get("gpu") != 4000 || len(b.Devices) != 1 || b.Devices[0].Topology != types.OneNUMA {
		t.Errorf("got %+v", b)
	}
}

// TestWrongDevicesInRequests: the errors name the field as written, with its line. Parse and the
// schema both refuse some of these, and Parse alone the others.
func TestWrongDevicesInRequests(t *testing.T) {
	s := compiled(t)
	for text, tt := range map[string]struct {
		says string
		both bool
	}{
		"gpu: {count: 4, modle: H100}":             {"f:7: requests.gpu.modle: is unknown: did you mean model?", true},
		"gpu: {model: H100}":                       {"f:7: requests.gpu.count: is missing: give how many", true},
		"gpu: {count: none}":                       {`f:7: requests.gpu.count: "none" is not a quantity`, true},
		"gpu: {count: 0, model: x}":                {"f:7: requests.gpu.count: 0 is not positive", true},
		"gpu: {count: [1]}":                        {"f:7: requests.gpu.count: [1] is not an amount", true},
		"gpu: {}":                                  {"f:7: requests.gpu.count: is missing", true},
		"gpu: [8]":                                 {"f:7: requests.gpu: a list is given: write an amount", true},
		"gpu: {count: 1, model: 100}":              {`f:7: requests.gpu.model: 100 is not a text: write it in quotes, "100"`, true},
		"gpu: {count: 1, model: [100]}":            {`f:7: requests.gpu.model[0]: 100 is not a text: write it in quotes, "100"`, true},
		"gpu:\n    count: 1\n    model: \"\"":      {`f:9: requests.gpu.model: "" has no word`, false},
		"gpu:\n    count: 1\n    model: [a, \"\"]": {`f:9: requests.gpu.model[1]: "" has no word`, false},
		"gpu:\n    count: 1\n    memory: \"40\"":   {`f:9: requests.gpu.memory: "40" has no unit: write 40Mi`, false},
		"gpu: {count: 1, topology: ring}":          {`f:7: requests.gpu.topology: "ring" is unknown: use nvlink or numa`, true},
		"cpu: {count: 4}":                          {`f:7: requests.cpu: "cpu" is not made of devices: write its amount alone`, true},
		"licence: {count: 4}":                      {`f:7: requests.licence: "licence" is not made of devices`, true},
		"a.b/c:\n    count: 4\n    model: \"\"":    {`f:9: requests.a.b/c.model: "" has no word`, false},
		"tpu: {count: 1, model: x}":                {`f:7: requests.tpu: "tpu" is not made of devices`, true},
		"npu: 1\n  gpu: {count: 1, model: [H100]}": {`f:8: requests.gpu: "gpu" is given twice`, false},
		"{gpu: 1}": {"f:", true},
		"gpu: 1\nalternatives: [{requests: {gpu: {count: 1}}}]": {"f:8: alternatives[0].requests.gpu: a group of fields is given: write an amount, such as 1; only", true},
	} {
		task := head(manifest.KindTask) + "name: a\nspec: {image: img}\nrequests:\n  x: 1\n  " + text + "\n"
		if strings.Contains(tt.says, "twice") {
			task += "devices: [{resource: gpu, model: [A100]}]\n"
		}
		_, err := manifest.Parse("f", []byte(task), nil)
		refused(t, err, task, tt.says)
		if tt.both && text != "{gpu: 1}" && admits(t, s, task) {
			t.Errorf("the schema admits\n%s", task)
		}
	}
}
