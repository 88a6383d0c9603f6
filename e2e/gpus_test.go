package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The simulated GPUs of a machine without any: two device files without a driver, a specification
// that names them, and an nvidia-smi that describes them.
const (
	gpu0 = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"
	gpu1 = "GPU-80be5c9a-eb7d-2388-ad7c-7d3ee8f87235"

	fakeCDI = `cdiVersion: "0.5.0"
kind: nvidia.com/gpu
devices:
- name: %[2]s
  containerEdits:
    deviceNodes: [{path: /dev/nvidia0, hostPath: %[1]s/nvidia0}]
- name: %[3]s
  containerEdits:
    deviceNodes: [{path: /dev/nvidia1, hostPath: %[1]s/nvidia1}]
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
`
	fakeGPU = `	<gpu id="00000000:%02d:00.0">
		<product_name>NVIDIA A100 80GB PCIe</product_name>
		<mig_mode><current_mig>Disabled</current_mig></mig_mode>
		<uuid>%s</uuid>
		<minor_number>%d</minor_number>
		<fb_memory_usage><total>81920 MiB</total><used>3 MiB</used></fb_memory_usage>
		<utilization><gpu_util>0 %%</gpu_util></utilization>
		<ecc_errors><volatile><dram_uncorrectable>%d</dram_uncorrectable></volatile></ecc_errors>
	</gpu>
`
	fakeSMI = `#!/bin/sh
case "$*" in
"-q -x") cat %[1]s/q.xml;;
"topo -m") printf '\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-1\nGPU1\tNV12\t X \t0-1\n';;
esac
`
)

// gpuHost is a directory with the fakes of a host.
type gpuHost struct {
	*testing.T
	dir string
}

func newGPUHost(t *testing.T) *gpuHost {
	t.Helper()
	h := &gpuHost{t, t.TempDir()}
	for minor := range 2 {
		if err := unix.Mknod(h.path(fmt.Sprintf("nvidia%d", minor)), unix.S_IFCHR|0o666, int(unix.Mkdev(60, uint32(minor)))); err != nil {
			t.Fatal(err)
		}
	}
	h.write("nvidia.yaml", fmt.Sprintf(fakeCDI, h.dir, gpu0, gpu1), 0o600)
	h.write("nvidia-smi", fmt.Sprintf(fakeSMI, h.dir), 0o700)
	h.errors(0)
	return h
}

func (h *gpuHost) path(name string) string { return filepath.Join(h.dir, name) }

func (h *gpuHost) write(name, text string, mode os.FileMode) {
	h.Helper()
	if err := os.WriteFile(h.path(name)+".new", []byte(text), mode); err != nil {
		h.Fatal(err)
	}
	if err := os.Rename(h.path(name)+".new", h.path(name)); err != nil {
		h.Fatal(err)
	}
}

// errors makes the second GPU report n memory errors.
func (h *gpuHost) errors(n int) {
	h.Helper()
	h.write("q.xml", "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n"+fmt.Sprintf(fakeGPU, 1, gpu0, 0, 0)+fmt.Sprintf(fakeGPU, 2, gpu1, 1, n)+"</nvidia_smi_log>\n", 0o600)
}

// gpuListed is a GPU in the output of escher gpus.
type gpuListed struct {
	ID, Model, Unhealthy string
	MemoryBytes          int64
	Links                []string
	HeldBy               []struct{ Task, Share string }
}

func (m *machines) gpus() []gpuListed {
	m.t.Helper()
	var list []gpuListed
	if err := json.Unmarshal([]byte(m.must("gpus", "-o", "json")), &list); err != nil {
		m.t.Fatal(err)
	}
	return list
}

// TestGPUs finds GPUs on a host, gives each to one task, which sees no other, and gives out no
// unhealthy one until it recovers.
func TestGPUs(t *testing.T) {
	h := newGPUHost(t)
	m := newMachines(t)
	m.begin(m.net.add(), "server", "--name", "server-1")
	m.agentWith("gpu", "--cdi-dir", h.dir, "--nvidia-smi", h.path("nvidia-smi"), "--device-interval", "1s")
	const image = "escher.local/gpus:v1"
	m.must("image", "make", image, built.program)
	found := m.gpus()
	if len(found) != 2 || found[0].ID != "nvidia.com/gpu="+gpu0 || found[0].Model != "NVIDIA A100 80GB PCIe" || found[0].MemoryBytes != 80<<30 ||
		!slices.Equal(found[0].Links, found[1].Links) || len(found[0].Links) != 1 {
		t.Fatalf("%+v", found)
	}

	h.errors(1)
	m.await("the second to be unhealthy", func() bool { return m.gpus()[1].Unhealthy != "" })
	first := m.must("run", "-d", "--gpu", "1", image, "--", "program", "devices")
	second := m.must("run", "-d", "--gpu", "1", image, "--", "program", "devices")
	m.await("the first to run", func() bool { return strings.Contains(m.escher("logs", first).out, "nvidia0") })
	if x := m.task(second); x.Phase != "pending" {
		t.Errorf("it was given an unhealthy device: %+v", x)
	}
	h.errors(0)
	m.await("the second to run", func() bool { return strings.Contains(m.escher("logs", second).out, "nvidia") })
	for id, want := range map[string]string{
		first: "nvidia0\nESCHER_DEVICES=nvidia.com/gpu=" + gpu0 + "\nbegan", second: "nvidia1\nESCHER_DEVICES=nvidia.com/gpu=" + gpu1 + "\nbegan",
	} {
		m.await("the log of "+id, func() bool { return strings.TrimSpace(m.escher("logs", id).out) == want })
	}
	for i, id := range []string{first, second} {
		if by := m.gpus()[i].HeldBy; len(by) != 1 || by[0].Task != id || by[0].Share != "1" {
			t.Errorf("%+v, want it held by %s", by, id)
		}
	}
	m.must("stop", first, second)
	m.await("both to be given back", func() bool { g := m.gpus(); return len(g[0].HeldBy)+len(g[1].HeldBy) == 0 })
}

// TestSimulatedGPUs: tasks start with simulated devices, and are told which.
func TestSimulatedGPUs(t *testing.T) {
	c := started(t, "--simulated-gpus", "2,model=H100")
	out := c.must("run", "--gpu", "2", "--binary", built.program, "--", "env", "ESCHER_DEVICES")
	if want := "escher.dev/gpu=node-1-gpu0,escher.dev/gpu=node-1-gpu1"; strings.TrimSpace(out) != want {
		t.Errorf("it was told %q, want %q", out, want)
	}
}
