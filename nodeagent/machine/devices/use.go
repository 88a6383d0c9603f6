package devices

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Unknown is a number that the device does not report. For example, some models, and slices of a
// device, report no utilization.
const Unknown = -1

// Use is the usage of one device according to its driver.
type Use struct {
	// ID is that of the device: see types.Device.
	ID string
	// Percent is the share of the driver's last sampling period, between a sixth of a second and a
	// second, in which a kernel ran: 0 to 100 or Unknown.
	Percent int
	// MemoryUsed and MemoryTotal are bytes of the device's memory, or Unknown.
	MemoryUsed, MemoryTotal int64
	// Processes are the processes of the whole machine that use the device, by id. Inside a
	// container, the driver may see none.
	Processes []Process
}

// Process is a process of the machine that uses a device.
type Process struct {
	// PID is its process id on the machine.
	PID int
	// MemoryBytes is its share of the device's memory, or Unknown.
	MemoryBytes int64
}

// Use returns the usage of the devices that Find has found, without unknown ones. It may take some
// seconds if a driver is slow, so callers must be able to wait. Unavailable: the driver does not
// answer.
func (f *Finder) Use(ctx context.Context) ([]Use, error) {
	f.mu.Lock()
	ids, cards := maps.Clone(f.ids), slices.Clone(f.cards)
	f.mu.Unlock()
	var all []Use
	for _, c := range cards {
		all = append(all, f.useOf(&c))
	}
	if len(ids) == 0 {
		return all, nil
	}
	a, err := f.smi.query(ctx)
	if errors.Is(err, exec.ErrNotFound) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	log, err := parseSMI(a.text)
	if err != nil {
		return all, err
	}
	for i := range log.GPUs {
		all = append(all, log.GPUs[i].use(ids)...)
	}
	return all, nil
}

// use returns the usage of a GPU, or of each of its slices.
func (g *smiGPU) use(ids map[string]string) []Use {
	var all []Use
	if id, ok := ids[g.UUID]; ok {
		all = append(all, Use{
			ID: id, Percent: percentOf(g.Busy), MemoryUsed: bytesOf(g.Memory.Used), MemoryTotal: bytesOf(g.Memory.Total),
			Processes: g.processes(func(*smiProcess) bool { return true }),
		})
	}
	for i := range g.Slices {
		s := &g.Slices[i]
		if id, ok := ids[sliceName(g.UUID, s.Index)]; ok {
			all = append(all, Use{
				ID: id, Percent: Unknown, MemoryUsed: bytesOf(s.Memory.Used), MemoryTotal: bytesOf(s.Memory.Total),
				Processes: g.processes(func(p *smiProcess) bool { return p.GPU == s.GPU && p.Compute == s.Compute }),
			})
		}
	}
	return all
}

// processes returns some of the processes on a GPU. nvidia-smi lists a process with both graphics
// and compute twice.
func (g *smiGPU) processes(of func(*smiProcess) bool) []Process {
	var all []Process
	for i := range g.Processes {
		p := &g.Processes[i]
		if p.PID <= 0 || !of(p) || slices.ContainsFunc(all, func(o Process) bool { return o.PID == p.PID }) {
			continue
		}
		all = append(all, Process{PID: p.PID, MemoryBytes: bytesOf(p.Memory)})
	}
	slices.SortFunc(all, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return all
}

// sliceName returns the name of a slice: its GPU and its number there.
func sliceName(parent string, index int) string { return parent + "/" + strconv.Itoa(index) }

// useOf returns the usage of an AMD card from sysfs, which does not list processes.
func (f *Finder) useOf(c *card) Use {
	number := func(file string) int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(readLine(c.dir, file)), 10, 64)
		if err != nil || n < 0 {
			return Unknown
		}
		return n
	}
	return Use{
		ID: c.id, Percent: int(number("gpu_busy_percent")),
		MemoryUsed: number("mem_info_vram_used"), MemoryTotal: number("mem_info_vram_total"),
	}
}
