package devices

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/types"
)

func TestUse(t *testing.T) {
	for name, want := range map[string][]Use{
		"h100x8": {{Percent: 97, MemoryUsed: 64107 << 20, MemoryTotal: 81559 << 20, Processes: []Process{{41394, 64082 << 20}, {41782, 12 << 20}}}},
		"h100vm": {{Percent: 96, MemoryUsed: 783 << 20, MemoryTotal: 81559 << 20, Processes: []Process{{796, 774 << 20}}}},
		"mig": {
			{Percent: Unknown, MemoryUsed: 8310 << 20, MemoryTotal: 40192 << 20, Processes: []Process{{7711, 8280 << 20}}},
			{Percent: Unknown, MemoryUsed: 12 << 20, MemoryTotal: 9728 << 20},
		},
		"lost-listed": {{Percent: 0, MemoryUsed: 3 << 20, MemoryTotal: 81920 << 20}, {Percent: Unknown, MemoryUsed: Unknown, MemoryTotal: Unknown}},
		"amd":         {{Percent: 12, MemoryUsed: 297209856, MemoryTotal: 206141652992}},
		"none":        {},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(newMachine(t, name).cfg)
			all := f.Find(t.Context(), nil)
			got, err := f.Use(t.Context())
			if err != nil || len(got) > len(all) || len(got) < len(want) {
				t.Fatalf("%+v, %v", got, err)
			}
			for i := range want {
				if deviceOf(all, got[i].ID) == nil {
					t.Errorf("%s is no device", got[i].ID)
				}
				got[i].ID = ""
			}
			if diff := cmp.Diff(want, append([]Use{}, got[:len(want)]...)); diff != "" {
				t.Error(diff)
			}
		})
	}
	m := newMachine(t, "a100x4")
	f := New(m.cfg)
	f.Find(t.Context(), nil)
	m.write("smi/q.xml", "no xml")
	f.smi.last = ""
	if _, err := f.Use(t.Context()); !types.Is(err, types.Unavailable) {
		t.Error(err)
	}
}

// TestLinks tests which devices share a link.
func TestLinks(t *testing.T) {
	text, err := os.ReadFile("testdata/topo-v100.txt")
	if err != nil {
		t.Fatal(err)
	}
	links := linksOf(parseTopo(string(text), 8))
	if got := strings.Join(links[0], " "); got != "nvlink0-1 nvlink0-2 nvlink0-3 nvlink0-4" {
		t.Error(got)
	}
	for i, of := range links {
		if len(of) != 4 {
			t.Errorf("GPU %d is on %v, want 4 links", i, of)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "words": "no GPU0 here\nGPU0 NV4\n", "short": "\tGPU0\tGPU1\nGPU0\t X\n", "more": "\tGPU0\tGPU7\tCPU Affinity\nGPU0\t X \tNV4\t0-3\nGPU7\tNV4\t X \t0-3\n",
		"one side": "\tGPU0\tGPU1\tCPU\nGPU0\t X \tNV4\t0\nGPU1\tSYS\t X \t0\n",
	} {
		for i, of := range linksOf(parseTopo(text, 2)) {
			if len(of) != 0 {
				t.Errorf("%s: GPU %d is on %v", name, i, of)
			}
		}
	}
}

func TestSlicesOfOldDrivers(t *testing.T) {
	got := parseList("GPU 0: A100-SXM4-40GB (UUID: GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0)\n  MIG 1c.3g.20gb Device 0: (UUID: MIG-GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0/1/0)\n")
	if len(got) != 1 || got[0].resource() != "nvidia.com/mig-1c.3g.20gb" || got[0].parent != "GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0" {
		t.Errorf("%+v", got)
	}
}

func TestNamed(t *testing.T) {
	for text, want := range map[string]Named{
		"acme.com/fpga=card0":    {"acme.com/fpga", "card0", "acme.com/fpga"},
		"acme.com/fpga=*":        {"acme.com/fpga", "*", "acme.com/fpga"},
		"intel.com/gpu=*,as=gpu": {"intel.com/gpu", "*", types.GPU},
	} {
		if got, err := ParseNamed(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "card0", "fpga=card0", "acme.com/fpga", "acme.com/fpga=", "acme.com/fpga=a b", "acme.com/fpga=x,as=cpu", "acme.com/fpga=x,as=port", "acme.com/fpga=x,as=port/80",
		"acme.com/fpga=x,as=team", "acme.com/fpga=x,as=node/n1", "acme.com/fpga=x,as=", "acme/fpga=x", "acme.com/fpga=x,as=escher.io/privileged", "acme.com/fpga=x,as=escher.io/cap-NET_ADMIN", "escher.io/privileged=x",
	} {
		if got, err := ParseNamed(text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "device") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	m := newMachine(t, "none")
	m.write("etc/cdi/acme.yaml", "cdiVersion: 0.5.0\nkind: acme.com/fpga\ndevices:\n- {name: card0, containerEdits: {env: [A=0]}}\n- {name: card10, containerEdits: {env: [A=0]}}\n- {name: card9, containerEdits: {env: [A=0]}}\n- {name: all, containerEdits: {env: [A=0]}}\n")
	m.write("var/run/cdi/broken.yaml", "cdiVersion: nine\n")
	for text, want := range map[string]string{
		"acme.com/fpga=*":     "acme.com/fpga=card0 acme.com/fpga=card9 acme.com/fpga=card10",
		"acme.com/fpga=card9": "acme.com/fpga=card9",
		"acme.com/fpga=none":  "acme.com/fpga=none!",
		"acme.com/other=*":    "",
	} {
		n, err := ParseNamed(text)
		if err != nil {
			t.Fatal(err)
		}
		m.cfg.Named = []Named{n}
		var got []string
		for _, d := range m.find() {
			if d.Unhealthy != "" {
				d.ID += "!"
			}
			got = append(got, d.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

// TestNoGPUs tests that GPUs are ignored with NoGPUs.
func TestNoGPUs(t *testing.T) {
	m := newMachine(t, "h100x8")
	m.cfg.NoGPUs = true
	if all := m.find(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}
