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

// Unknown stands for a number that the device does not tell: some models, and slices of
// a device, tell no utilisation.
const Unknown = -1

// Use is how much one device is used, as its driver says.
type Use struct {
	// ID is that of the device: see types.Device.
	ID string
	// Percent is the part of the last sampling period of the driver, between a sixth of a
	// second and a second, in which a kernel ran; 0 to 100 or Unknown.
	Percent int
	// MemoryUsed and MemoryTotal are bytes of the device's memory; Unknown if not told.
	MemoryUsed, MemoryTotal int64
	// Processes are those with something on the device, of the whole machine, by number.
	// Inside a container the driver may see none.
	Processes []Process
}

// Process is a process of the machine that uses a device.
type Process struct {
	// PID is its number as the machine counts.
	PID int
	// MemoryBytes is what it has of the device's memory; Unknown if not told.
	MemoryBytes int64
}

// Use returns how much the devices are used that Find has found. Those that nothing is known about
// are left out. It takes up to some seconds where a driver is slow, and is not to be called by what
// must not wait. Unavailable: the driver does not answer.
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

// use returns how much a GPU, or each slice of it, is used.
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

// processes returns some of the processes on a GPU. One that draws and computes is listed
// twice there.
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

// sliceName is the name of a slice by its number on its GPU.
func sliceName(parent string, index int) string { return parent + "/" + strconv.Itoa(index) }

// useOf returns how much a card of AMD is used, as sysfs says. Who uses it is not told
// there.
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
