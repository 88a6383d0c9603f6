package manifest_test

import (
	"encoding/json"
	"reflect"
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
		"{resource: gpu, minMemory: [1]}":                          {"devices[0].minMemory: [1] is not a size of a device's memory", true},
		"{resource: gpu, minMemory: 0}":                            {"devices[0].minMemory: 0 is not a size of a device's memory: write it such as 40Gi", true},
		"{resource: gpu, minMemory: \"0\"}":                        {`devices[0].minMemory: "0" is not a size of a device's memory: give more than 0`, false},
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
