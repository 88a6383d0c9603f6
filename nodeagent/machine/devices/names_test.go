package devices

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/types"
)

// uuids returns the permanent names of a machine's GPUs, by their device files.
func (m *machine) uuids() []string {
	var all []string
	for _, g := range New(m.cfg).procGPUs() {
		for len(all) <= g.minor {
			all = append(all, "")
		}
		all[g.minor] = g.uuid
	}
	return all
}

// spec returns a specification that names GPUs by their device files; more adds files to each.
func spec(names []string, more string) string {
	text := "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
	for minor, name := range names {
		text += fmt.Sprintf("- {name: %q, containerEdits: {deviceNodes: [{path: /dev/nvidia%d}%s]}}\n", name, minor, more)
	}
	return text
}

// short returns names of devices, with ! after unhealthy ones. No two healthy ones may have the
// same place.
func (m *machine) short(all []types.Device) string {
	m.Helper()
	uuids := m.uuids()
	var names []string
	healthy := make(map[string]string)
	for _, d := range all {
		_, name, _ := strings.Cut(d.ID, "=")
		for minor, uuid := range uuids {
			if uuid == name {
				name = fmt.Sprint("u", minor)
			}
		}
		if d.Unhealthy == "" {
			if other := healthy[d.Bus]; other != "" && d.Parent == "" {
				m.Errorf("%s is given out as %s and %s", d.Bus, other, d.ID)
			}
			healthy[d.Bus] = d.ID
		} else {
			name += "!"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (w *watched) want(what, want string) {
	w.Helper()
	if got := w.short(w.look(2 * time.Second)); got != want {
		w.Errorf("%s: %s, want %s", what, got, want)
	}
}

// forget drops moved devices that are not held from the known ones, as an agent does.
func (w *watched) forget(held string) {
	var kept []types.Device
	for _, d := range w.known {
		if d.Unhealthy != Moved || strings.HasSuffix(d.ID, "="+held) {
			kept = append(kept, d)
		}
	}
	w.known = kept
}

// TestRenamed tests that a renamed GPU is healthy by its new name once the old one is no longer
// held.
func TestRenamed(t *testing.T) {
	for name, named := range map[string]bool{"found": false, "named": true} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, "a100x4")
			if named {
				w.cfg.NoGPUs, w.cfg.Named = true, []Named{{nvidiaGPU, anyName, types.GPU}}
				w.f = New(w.cfg)
			}
			numbers := w.read("etc/cdi/nvidia.yaml")
			w.want("at first", "0 1 2 3")
			w.write("etc/cdi/nvidia.yaml", spec(w.uuids(), ""))
			w.want("renamed", "0! u0! 1! u1! 2! u2! 3! u3!")
			if d := w.known[0]; d.Unhealthy != Moved {
				t.Errorf("%+v", d)
			}
			if d := w.known[1]; d.Unhealthy != heldAs+"nvidia.com/gpu=0" {
				t.Errorf("%+v", d)
			}
			w.forget("0")
			w.want("one is held", "0! u0! u1 u2 u3")
			w.f = New(w.cfg)
			w.want("of a new agent", "0! u0! u1 u2 u3")
			w.forget("")
			w.want("none is held", "u0 u1 u2 u3")
			w.write("etc/cdi/nvidia.yaml", numbers)
			w.want("and back", "0! u0! 1! u1! 2! u2! 3! u3!")
			w.forget("")
			w.want("and back", "0 1 2 3")
		})
	}
}

// TestNamedTwice tests that a GPU with two descriptions is one device, and keeps its known name.
func TestNamedTwice(t *testing.T) {
	for name, more := range map[string]string{"alike": ", {path: /dev/dri/card1}, {path: /dev/dri/renderD128}", "fewer files": "", "another file": ", {path: /dev/nvidia-uvm}"} {
		t.Run(name, func(t *testing.T) {
			w := watch(t, "a100x4")
			w.want("at first", "0 1 2 3")
			w.write("dev/nvidia-uvm", "")
			w.write("var/run/cdi/more.yaml", spec(w.uuids(), more))
			w.want("a second one", "0 1 2 3")
			w.f, w.known = New(w.cfg), nil
			w.want("nothing is known", "u0 u1 u2 u3")
			w.f, w.known = New(w.cfg), nil
			w.remove("proc/driver")
			w.hang()
			if all := w.look(0); len(all) != 4 {
				t.Errorf("no program says which they are: %+v", all)
			}
		})
	}
	t.Run("no file of the driver", func(t *testing.T) {
		w := watch(t, "a100x4")
		w.want("at first", "0 1 2 3")
		w.write("var/run/cdi/more.yaml", strings.ReplaceAll(spec(w.uuids(), ""), "/dev/nvidia", "/dev/dri/renderD12"))
		w.want("the driver tells which is which", "0 1 2 3")
	})
	t.Run("named", func(t *testing.T) {
		w := watch(t, "a100x4")
		w.write("etc/cdi/nvidia.yaml", spec([]string{"0", "1", "2", "3"}, "")+strings.Join(strings.SplitAfter(spec(w.uuids(), ""), "\n")[3:], ""))
		w.cfg.NoGPUs, w.cfg.Named = true, []Named{{nvidiaGPU, anyName, types.GPU}}
		w.f = New(w.cfg)
		w.want("all", "u0 u1 u2 u3")
		w.cfg.Named = []Named{{nvidiaGPU, "1", types.GPU}, {nvidiaGPU, w.uuids()[1], types.GPU}}
		w.f, w.known = New(w.cfg), nil
		w.want("by both names", "1 u1!")
		w.cfg.NoGPUs, w.cfg.Named = false, []Named{{nvidiaGPU, "1", "acme.com/card"}}
		w.f, w.known = New(w.cfg), nil
		w.want("beside those that are found", "1! u0 u1 u2 u3")
	})
}

// TestNumbersMove tests that a number moves to another GPU once no task holds either.
func TestNumbersMove(t *testing.T) {
	w := watch(t, "a100x4")
	w.want("at first", "0 1 2 3")
	w.write("etc/cdi/nvidia.yaml", spec([]string{"1", "0", "2", "3"}, ""))
	w.want("moved", "0! 1! 2 3")
	w.forget("1")
	w.want("1 is held", "0! 1! 2 3")
	w.forget("")
	w.want("not seen before", "1 0 2 3")
}

// TestUndescribed tests that a GPU keeps its name while its description is missing.
func TestUndescribed(t *testing.T) {
	w := watch(t, "a100x4")
	w.want("at first", "0 1 2 3")
	text := w.read("etc/cdi/nvidia.yaml")
	w.remove("etc/cdi")
	w.want("missing", "0! 1! 2! 3!")
	if w.known[0].Unhealthy != noSpec {
		t.Error(w.known[0].Unhealthy)
	}
	w.write("etc/cdi/nvidia.yaml", text)
	w.want("there again", "0 1 2 3")
}

// TestSlicesRenamed tests that a slice has one name, too.
func TestSlicesRenamed(t *testing.T) {
	w := watch(t, "mig")
	well := len(w.look(0))
	text := w.read("etc/cdi/nvidia.yaml")
	for _, s := range parseList(w.read("smi/list.txt")) {
		text = strings.ReplaceAll(text, s.uuid, fmt.Sprint("more-", s.index)) // It has a number, too.
	}
	w.write("etc/cdi/nvidia.yaml", text)
	all := w.look(2 * time.Second)
	moved, held := strings.Count(unhealthy(all), Moved), strings.Count(unhealthy(all), heldAs)
	if moved != 3 || held != 3 || len(all) != well+3 {
		t.Errorf("%d moved and %d held: %s", moved, held, lines(all))
	}
	w.forget("")
	if all := w.look(2 * time.Second); len(all) != well || strings.Trim(unhealthy(all), "-|") != "" {
		t.Error(lines(all))
	}
}

// TestLinksAreKept tests that links stay while they cannot be read: agents restart while a GPU is
// lost, or nvidia-smi is busy.
func TestLinksAreKept(t *testing.T) {
	w := watch(t, "lost")
	w.known = w.find()
	for i := range w.known {
		w.known[i].Links = []string{"nvlink0"}
	}
	for _, d := range w.look(0) {
		if strings.Join(d.Links, " ") != "nvlink0" {
			t.Errorf("%s has lost its links", d.ID)
		}
	}
	w = watch(t, "a100x4")
	well := w.look(0)
	topo := w.read("smi/topo.txt")
	w.remove("smi/topo.txt")
	w.f = New(w.cfg)
	if diff := cmp.Diff(well, w.look(2*time.Second)); diff != "" {
		t.Error(diff)
	}
	w.write("smi/topo.txt", strings.ReplaceAll(topo, "NV12", "SYS"))
	if all := w.look(2 * time.Second); len(all[0].Links) != 0 {
		t.Errorf("they are linked no more: %+v", all[0])
	}
}

// TestNothingToAsk tests that the answers of nvidia-smi hold after its removal, also for a
// restarted agent.
func TestNothingToAsk(t *testing.T) {
	for _, name := range []string{"a100x4", "errors", "mig"} {
		w := watch(t, name)
		known := w.look(0)
		w.remove("smi/nvidia-smi")
		for range 2 {
			if diff := cmp.Diff(known, w.look(2*time.Second)); diff != "" {
				t.Error(name, diff)
			}
			w.f = New(w.cfg)
		}
		for i := range w.known {
			w.known[i].Unhealthy = silentReason
		}
		if all := w.look(2 * time.Second); strings.Contains(unhealthy(all), silentReason) {
			t.Error("a program counts as silent, though all answer")
		}
	}
}

// TestInstalledLater tests that each search looks for nvidia-smi.
func TestInstalledLater(t *testing.T) {
	w := watch(t, "a100x4")
	w.cfg.NvidiaSMI = ""
	w.f = New(w.cfg)
	t.Setenv("PATH", w.path("bin")+":"+os.Getenv("PATH"))
	if all := w.look(0); len(all) != 4 || all[0].MemoryBytes != 0 || all[0].Unhealthy != "" {
		t.Errorf("%+v", all)
	}
	if got, err := w.f.Use(t.Context()); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	for _, name := range []string{"nvidia-smi", "q.xml", "topo.txt"} {
		w.write("bin/"+name, w.read("smi/"+name))
	}
	if err := os.Chmod(w.path("bin/nvidia-smi"), 0o700); err != nil {
		t.Fatal(err)
	}
	if all := w.look(2 * time.Second); all[0].MemoryBytes == 0 || len(all[0].Links) == 0 {
		t.Errorf("%+v", all[0])
	}
}
