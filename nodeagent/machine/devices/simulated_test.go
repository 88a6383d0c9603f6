package devices

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"encoding/json"

	"github.com/escher-sched/escher/types"
)

func TestSimulated(t *testing.T) {
	for text, want := range map[string]string{
		"0":                       "",
		"2":                       "gpu0 Simulated 80Gi 0 nvlink0|gpu1 Simulated 80Gi 0 nvlink0",
		"3,model=H100,numa=2":     "gpu0 H100 80Gi 0 nvlink0|gpu1 H100 80Gi 0 nvlink0|gpu2 H100 80Gi 1 nvlink0",
		"3,links=pairs":           "gpu0 Simulated 80Gi 0 nvlink0|gpu1 Simulated 80Gi 0 nvlink0|gpu2 Simulated 80Gi 0 nvlink2",
		"1,links=none,memory=1Gi": "gpu0 Simulated 1Gi 0 ",
	} {
		s, err := ParseSimulated(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range s.Devices("n") {
			if d.Resource != types.GPU {
				t.Errorf("%+v", d)
			}
			name := strings.TrimPrefix(d.ID, "escher.dev/gpu=n-")
			got = append(got, strings.Join([]string{name, d.Model, types.Quantity(d.MemoryBytes).Format(types.Memory), string(rune('0' + d.NUMA)), strings.Join(d.Links, " ")}, " "))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, text := range []string{"", "-1", "65", "x", "1,model=", "1,memory=1", "1,memory=-1Gi", "1,links=x", "1,numa=0", "1,size=2"} {
		if _, err := ParseSimulated(text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "write it like") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSimulatedAreDescribed tests that the CDI has all of them.
func TestSimulatedAreDescribed(t *testing.T) {
	s := Simulated{Count: 8, Links: "all", NUMA: 1}
	text, err := json.Marshal(s.Spec([]string{"node-1", "node-2"}))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "simulated.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	f := New(Config{CDIDirs: []string{dir}, NoGPUs: true})
	specs := f.described()
	if len(specs) != 16 {
		t.Fatalf("%d are described, want 16: %v", len(specs), f.told)
	}
	for _, d := range s.Devices("node-2") {
		if n := (&Named{Class: simulatedKind, Name: strings.TrimPrefix(d.ID, simulatedKind+"="), Resource: types.GPU}).find(specs, nil); len(n) != 1 || n[0].Unhealthy != "" {
			t.Errorf("%s: %+v", d.ID, n)
		}
	}
}
