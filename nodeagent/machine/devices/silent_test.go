package devices

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/types"
)

// clock is a time that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// watched is a machine that is searched repeatedly.
type watched struct {
	*machine
	clock clock
	f     *Finder
	known []types.Device
}

func watch(t *testing.T, name string) *watched {
	t.Helper()
	w := &watched{machine: newMachine(t, name), clock: clock{time.Unix(1_800_000_000, 0)}}
	w.cfg.Now = w.clock.now
	w.f = New(w.cfg)
	return w
}

// look searches after some time.
func (w *watched) look(after time.Duration) []types.Device {
	w.Helper()
	w.clock.at = w.clock.at.Add(after)
	w.known = w.f.Find(w.Context(), w.known)
	return w.known
}

// unhealthy returns the reasons of all devices, "-" for healthy ones.
func unhealthy(all []types.Device) string {
	var reasons []string
	for _, d := range all {
		if d.Unhealthy == "" {
			reasons = append(reasons, "-")
			continue
		}
		reasons = append(reasons, d.Unhealthy)
	}
	return strings.Join(reasons, "|")
}

// hang makes nvidia-smi hang.
func (w *watched) hang() {
	w.write("smi/hang", "")
	w.f.smi.timeout = 300 * time.Millisecond
}

// answers ends the hang.
func (w *watched) answers() {
	w.remove("smi/hang")
	w.f.smi.timeout = 30 * time.Second
}

// TestHang tests a driver that does not answer: the known state holds for a while, then its devices
// are unhealthy, and they recover.
func TestHang(t *testing.T) {
	w := watch(t, "h100x8")
	well := w.look(0)
	w.hang()
	if diff := cmp.Diff(well, w.look(30*time.Second)); diff != "" {
		t.Error("one answer is missing, and that changed:", diff)
	}
	if diff := cmp.Diff(well, w.look(59*time.Second)); diff != "" {
		t.Error("within a minute:", diff)
	}
	silent := w.look(2 * time.Second)
	for i, d := range silent {
		if d.Unhealthy != silentReason || d.UnhealthySince != w.clock.at.UnixNano() {
			t.Errorf("%+v", d)
		}
		if d.MemoryBytes != well[i].MemoryBytes || !cmp.Equal(d.Links, well[i].Links) || d.Model != well[i].Model {
			t.Errorf("what it is like was forgotten: %+v", d)
		}
	}
	if diff := cmp.Diff(silent, w.look(time.Hour)); diff != "" {
		t.Error("it changes all the time:", diff)
	}
	w.answers()
	if diff := cmp.Diff(well, w.look(time.Minute)); diff != "" {
		t.Error("it answers again:", diff)
	}
}

// TestKilled tests that nvidia-smi and its child processes are killed once its caller stops
// waiting.
func TestKilled(t *testing.T) {
	w := watch(t, "a100x4")
	w.write("smi/hang", "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		eventually(t, "it started nothing", func() bool {
			text, err := os.ReadFile(w.path("smi/child"))
			return err == nil && strings.HasSuffix(string(text), "\n")
		})
	}()
	w.f.Find(ctx, nil)
	pids := strings.Fields(w.read("smi/child"))
	if len(pids) != 1 {
		t.Fatalf("it started %v, want one", pids)
	}
	eventually(t, "what it started runs on", func() bool {
		status, err := os.ReadFile("/proc/" + pids[0] + "/stat")
		return err != nil || strings.Contains(string(status), ") Z ")
	})
}

// eventually fails the test if a condition is not met within half a minute.
func eventually(t *testing.T, otherwise string, is func() bool) {
	t.Helper()
	again, patience := time.NewTicker(5*time.Millisecond), time.After(2*time.Minute)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-patience:
			t.Error(otherwise)
			return
		}
	}
}

// TestHangAtFirst tests that no devices of a driver that never answered are healthy.
func TestHangAtFirst(t *testing.T) {
	w := watch(t, "a100x4")
	w.hang()
	all := w.look(0)
	if len(all) != 4 || all[0].Unhealthy != silentReason || all[0].Model == "" || all[0].Bus == "" {
		t.Errorf("%+v", all)
	}
}

// TestHangAfterARestart tests that a restarted agent continues with the stored devices.
func TestHangAfterARestart(t *testing.T) {
	w := watch(t, "mig")
	well := w.look(0)
	w.f = New(w.cfg)
	w.hang()
	if diff := cmp.Diff(well, w.look(time.Minute)); diff != "" {
		t.Error(diff)
	}
}

// TestStuck tests that a process which hangs in the driver is not waited for, and that there is
// never a second one.
func TestStuck(t *testing.T) {
	w := watch(t, "a100x4")
	ended := make(chan struct{})
	w.f.smi.stuck = ended
	if all := w.look(0); all[0].Unhealthy != silentReason {
		t.Errorf("%+v", all[0])
	}
	if exists(w.path("smi/calls")) {
		t.Error("another nvidia-smi was run beside one that hangs")
	}
	close(ended)
	if all := w.look(time.Second); unhealthy(all) != "-|-|-|-" {
		t.Error(unhealthy(all))
	}
}

// TestAnswers tests invalid answers of nvidia-smi.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct{ text, code, want string }{
		"mismatch": {"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.183\n", "18", "the driver does not work: Failed to initialize NVML: Driver/library version mismatch"},
		"nothing":  {"", "9", "the driver does not work: nvidia-smi exits with 9"},
		"none":     {"No devices were found\n", "6", "the driver does not work: No devices were found"},
		"no gpus":  {"<?xml version=\"1.0\" ?>\n<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>", "0", "lost: nvidia-smi does not list it"},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, "a100x4")
			well := w.look(0)
			w.write("smi/q.xml", c.text)
			w.write("smi/q.code", c.code)
			all := w.look(time.Second)
			for i, d := range all {
				if d.Unhealthy != c.want || d.MemoryBytes != well[i].MemoryBytes || !cmp.Equal(d.Links, well[i].Links) {
					t.Errorf("%+v", d)
				}
			}
		})
	}
	for name, text := range map[string]string{
		"garbage": "\x00\x01\xff<nvidia_smi_log><gpu", "half": "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n\t<gpu id=\"00000000:17:00.0\">\n", "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, "a100x4")
			well := w.look(0)
			w.write("smi/q.xml", text)
			if diff := cmp.Diff(well, w.look(2*time.Second)); diff != "" {
				t.Error("at once:", diff)
			}
			if all := w.look(2 * time.Minute); all[0].Unhealthy != silentReason {
				t.Error(unhealthy(all))
			}
		})
	}
	t.Run("too much", func(t *testing.T) {
		w := watch(t, "a100x4")
		w.write("smi/nvidia-smi", "#!/bin/sh\nexec cat /dev/zero\n")
		if all := w.look(0); all[0].Unhealthy != silentReason {
			t.Error(unhealthy(all))
		}
	})
	t.Run("not there", func(t *testing.T) {
		w := watch(t, "a100x4")
		w.remove("smi/nvidia-smi")
		if all := w.look(0); unhealthy(all) != "-|-|-|-" || all[0].Model != "NVIDIA A100 80GB PCIe" {
			t.Errorf("%+v", all)
		}
	})
}

// TestGone tests that undescribed devices are unhealthy but never missing, and recover.
func TestGone(t *testing.T) {
	w := watch(t, "mig")
	well := w.look(0)
	spec := w.read("etc/cdi/nvidia.yaml")
	w.remove("etc", "proc", "smi")
	gone := w.look(time.Minute)
	if len(gone) != len(well) {
		t.Fatalf("%d of %d are left", len(gone), len(well))
	}
	for i, d := range gone {
		if d.Unhealthy != Gone || d.UnhealthySince != w.clock.at.UnixNano() || d.Resource != well[i].Resource {
			t.Errorf("%+v", d)
		}
	}
	if diff := cmp.Diff(gone, w.look(time.Minute)); diff != "" {
		t.Error("it changes all the time:", diff)
	}
	back := watch(t, "mig")
	back.write("etc/cdi/nvidia.yaml", spec)
	back.known = gone
	if diff := cmp.Diff(well, back.look(0)); diff != "" {
		t.Error("they are there again:", diff)
	}
}

// TestSlicesOfASilentDriver tests slices known by their files alone: their GPU is not listed, and
// their properties are the known ones.
func TestSlicesOfASilentDriver(t *testing.T) {
	w := watch(t, "mig")
	well := w.look(0)
	w.cfg.NvidiaSMI = w.path("smi/none")
	w.f = New(w.cfg)
	known := w.look(0)
	for i, d := range known {
		if d.ID != well[i].ID || d.Resource != well[i].Resource {
			t.Errorf("%+v, want %+v", d, well[i])
		}
	}
	w.known = nil
	if all := w.look(0); len(all) != 1 || all[0].Resource != types.GPU {
		t.Errorf("what a slice is was not known: %+v", all)
	}
}

// TestSlicesAreNotListed tests that a driver that has slices and lists none does not answer.
func TestSlicesAreNotListed(t *testing.T) {
	w := watch(t, "mig")
	well := w.look(0)
	w.write("smi/list.txt", "GPU is being reset\n")
	if diff := cmp.Diff(well, w.look(2*time.Second)); diff != "" {
		t.Error("at once:", diff)
	}
	for _, d := range w.look(2 * time.Minute) {
		if d.Unhealthy != silentReason || deviceOf(well, d.ID).Resource != d.Resource {
			t.Errorf("%+v", d)
		}
	}
}

// TestSlicesChange tests that recreated slices are other devices.
func TestSlicesChange(t *testing.T) {
	w := watch(t, "mig")
	well := w.look(0)
	old := strings.TrimPrefix(well[1].ID, "nvidia.com/gpu=")
	const made = "MIG-11111111-2222-3333-4444-555555555555"
	w.write("smi/list.txt", strings.ReplaceAll(w.read("smi/list.txt"), old, made))
	all := w.look(2 * time.Second)
	if d := deviceOf(all, "nvidia.com/gpu="+old); d == nil || !strings.HasPrefix(d.Unhealthy, "lost: nvidia-smi does not list this slice") || d.Resource != well[1].Resource {
		t.Errorf("%+v", d)
	}
	if d := deviceOf(all, "nvidia.com/gpu="+made); d == nil || d.Unhealthy != noSpec {
		t.Errorf("%+v", d)
	}
	w.write("etc/cdi/nvidia.yaml", strings.ReplaceAll(w.read("etc/cdi/nvidia.yaml"), old, made))
	all = w.look(2 * time.Second)
	if d := deviceOf(all, "nvidia.com/gpu="+old); d == nil || d.Unhealthy != Gone {
		t.Errorf("%+v", d)
	}
	if d := deviceOf(all, "nvidia.com/gpu="+made); d == nil || d.Unhealthy != "" || d.Resource != well[1].Resource {
		t.Errorf("%+v", d)
	}
}

// TestRecovers tests that each reason ends when the driver reports that all is well.
func TestRecovers(t *testing.T) {
	w := watch(t, "errors")
	first := w.look(0)
	if n := strings.Count(unhealthy(first), "|"); n != 7 || !strings.HasPrefix(unhealthy(first), "-|") {
		t.Fatal(unhealthy(first))
	}
	text := w.read("smi/q.xml")
	for _, r := range [][2]string{
		{"<dram_uncorrectable>2<", "<dram_uncorrectable>0<"}, {">Yes<", ">No<"}, {"<gpu_recovery_action>Reset<", "<gpu_recovery_action>None<"}, {"<state>In Progress<", "<state>Completed<"},
	} {
		text = strings.ReplaceAll(text, r[0], r[1])
	}
	w.write("smi/q.xml", text)
	if got := unhealthy(w.look(2 * time.Second)); got != "-|-|-|-|-|-|-|Xid 95: an uncontained memory error" {
		t.Error(got)
	}
	w.write("proc/uptime", "4800.00 1.0\n")
	if got := unhealthy(w.look(2 * time.Second)); got != "-|-|-|-|-|-|-|-" {
		t.Error(got)
	}
}

// TestLinksAreReadOnce tests that links are read once for the same GPUs.
func TestLinksAreReadOnce(t *testing.T) {
	w := watch(t, "a100x4")
	for range 3 {
		w.look(time.Minute)
	}
	if n := strings.Count(w.read("smi/calls"), "topo"); n != 1 {
		t.Errorf("asked %d times for links, want once", n)
	}
}

// TestNobodyIsAsked tests that nvidia-smi is not run on a machine without GPUs.
func TestNobodyIsAsked(t *testing.T) {
	w := watch(t, "none")
	if all := w.look(0); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	if exists(w.path("smi/calls")) {
		t.Error("nvidia-smi was run")
	}
}
