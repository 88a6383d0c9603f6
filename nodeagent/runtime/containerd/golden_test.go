package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

var update = flag.Bool("update", false, "write testdata as containers are set up")

// TestGolden compares the setup of a container on each kind of machine with testdata, for people to
// read. go test -run Golden -update writes it.
func TestGolden(t *testing.T) {
	usual := nodeagent.Container{
		ID: "web-1", Command: []string{"serve"}, Env: []string{"A=b"}, MilliCPU: 1500, MemoryBytes: 256 << 20,
		Mounts: []nodeagent.Mount{{Source: "/data", Target: "/mnt/data", ReadOnly: true}},
	}
	strict, privileged := usual, usual
	strict.CPULimit, strict.Pids, strict.ReadOnlyRoot = types.CPUNone, 64, true
	strict.CapDrop, strict.CapAdd = []string{"ALL"}, []string{"NET_ADMIN"}
	privileged.Privileged = true
	strict.ShmBytes, strict.Ulimits = 1<<27, []types.Ulimit{{Name: "memlock", Soft: -1, Hard: -1}, {Name: "nofile", Soft: 5, Hard: 6}}
	strict.Mounts = append(strict.Mounts, nodeagent.Mount{Target: "/cache", TmpfsBytes: 1 << 20})
	v1 := cgroup.Facts{Controllers: cgroup.Needed(), Swap: true}
	v1Plain := cgroup.Facts{Controllers: cgroup.Needed()}
	v2 := cgroup.Facts{Unified: true, Controllers: cgroup.Needed(), Swap: true}
	v2Systemd := v2
	v2Systemd.Systemd = true
	for name, test := range map[string]struct {
		facts cgroup.Facts
		of    nodeagent.Container
	}{
		"v1": {v1, usual}, "v1-no-swap-accounting": {v1Plain, usual}, "v2-cgroupfs": {v2, usual}, "v2-systemd": {v2Systemd, usual},
		"v1-strict": {v1, strict}, "v2-systemd-strict": {v2Systemd, strict}, "v1-privileged": {v1, privileged},
	} {
		t.Run(name, func(t *testing.T) {
			got := golden(t, test.facts, test.of)
			path := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("it is set up otherwise than in %s:\n%s", path, got)
			}
		})
	}
}

// golden returns the setup of the container and its runtime, without differences between real
// machines.
func golden(t *testing.T, facts cgroup.Facts, of nodeagent.Container) []byte {
	t.Helper()
	m, err := newControl(facts, "", "escher-c1-n1")
	if err != nil {
		t.Fatal(err)
	}
	common := commonSpec(t, facts.Unified)
	devices := withDevices(nil, nil)
	if of.Privileged {
		devices = withoutHostDevices
	}
	spec, err := m.spec(t.Context(), of, common, nil, devices)
	if err != nil {
		t.Fatal(err)
	}
	// The profile depends on processor and kernel; its existence does not.
	if spec.Linux.Seccomp != nil {
		spec.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: spec.Linux.Seccomp.DefaultAction}
	}
	if of.Privileged {
		spec.Process.Capabilities = nil // those of this process
	}
	runtime, err := m.runtime()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(map[string]any{"spec": spec, "systemdCgroup": runtime.Options != nil}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// withoutHostDevices removes the devices of the machine, which the option before it has found.
func withoutHostDevices(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Linux.Devices = nil
	return nil
}

// commonSpec returns containerd's spec of an image, with the namespaces for that version of
// cgroups.
func commonSpec(t *testing.T, unified bool) []byte {
	t.Helper()
	ctx := namespaces.WithNamespace(t.Context(), "escher-c1-n1")
	spec, err := oci.GenerateSpec(ctx, nil, &containers.Container{ID: "template"})
	if err != nil {
		t.Fatal(err)
	}
	spec.Linux.Namespaces = []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.NetworkNamespace}}
	if unified {
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	// Some exist per processor of the machine.
	spec.Linux.MaskedPaths = []string{"/proc/kcore"}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
