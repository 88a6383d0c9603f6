package devices

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// nvidiaGPU is the class of NVIDIA's GPUs and slices.
const nvidiaGPU = "nvidia.com/gpu"

// noSpec is the reason for a GPU without a CDI specification.
const noSpec = "no CDI specification describes it: run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"

// silentReason is the reason for a GPU whose driver does not answer.
const silentReason = "nvidia-smi does not answer: its driver hangs, or is being changed"

// nvidia is all that is known of the NVIDIA GPUs of a machine.
type nvidia struct {
	specs []described
	proc  []procGPU
	// known are the previously found devices.
	known []types.Device
	// smi is the answer of nvidia-smi; nil if there is none.
	smi *smiLog
	// slices are the MIG slices that nvidia-smi lists.
	slices []slice
	// links are the links of each GPU by its UUID. A missing GPU was not read.
	links map[string][]string
	// trouble is nvidia-smi's own reason for a missing answer. silent reports whether it does not
	// answer, absent whether it is not installed.
	trouble        string
	silent, absent bool
	// lost are the complaints of nvidia-smi about single GPUs, xids the errors in the kernel's log,
	// both by address.
	lost, xids map[string]string
}

// findNvidia finds NVIDIA's GPUs and their slices.
func (f *Finder) findNvidia(ctx context.Context, specs []described, known []types.Device) []found {
	n := nvidia{specs: ofClass(specs, nvidiaGPU, known), proc: f.procGPUs(), known: known}
	if len(n.specs) == 0 && len(n.proc) == 0 {
		f.silent = n.since(f)
		return nil // Do not run nvidia-smi on a machine without GPUs.
	}
	f.askSMI(ctx, &n)
	n.nameOnce()
	n.xids = f.xids()
	f.silent = n.since(f)
	all := n.devices()
	f.name(&n)
	return all
}

// gpu is one NVIDIA GPU, combined from several sources.
type gpu struct {
	uuid, bus, model string
	minor, numa      int
	// smi is nvidia-smi's entry; nil if there is none.
	smi *smiGPU
}

// gpus combines the data of the kernel and of nvidia-smi.
func (n *nvidia) gpus() []gpu {
	var all []gpu
	for _, p := range n.proc {
		all = append(all, gpu{uuid: p.uuid, bus: p.bus, model: p.model, minor: p.minor, numa: p.numa})
	}
	if n.smi == nil {
		return all
	}
	for i := range n.smi.GPUs {
		s := &n.smi.GPUs[i]
		at := slices.IndexFunc(all, func(g gpu) bool { return g.bus == s.Bus })
		if at < 0 {
			all = append(all, gpu{bus: s.Bus, minor: -1, numa: unknownNUMA})
			at = len(all) - 1
		}
		g := &all[at]
		g.smi = s
		if strings.HasPrefix(s.UUID, "GPU-") {
			g.uuid = s.UUID
		}
		if s.Model != "" {
			g.model = s.Model
		}
		if minor, err := strconv.Atoi(strings.TrimSpace(s.Minor)); err == nil {
			g.minor = minor
		}
	}
	return all
}

// nameOnce keeps one name of each GPU and slice: the driver tells which descriptions are of the
// same device.
func (n *nvidia) nameOnce() {
	gpus := n.gpus()
	n.specs = once(n.specs, n.known, func(d *described) string {
		g := gpuOf(gpus, d)
		s := n.sliceOf(d, g)
		switch {
		case s != nil:
			return s.uuid
		case g != nil && !isSlice(d):
			return g.bus
		}
		return d.thing()
	})
}

// idOf returns the name of a GPU without a description: its known name if it has one.
func (n *nvidia) idOf(g *gpu) string {
	for i := range n.known {
		k := &n.known[i]
		if g.bus != "" && k.Bus == g.bus && k.Parent == "" && k.Unhealthy != Moved && strings.HasPrefix(k.ID, nvidiaGPU+"=") {
			return k.ID
		}
	}
	return nvidiaGPU + "=" + g.uuid
}

// devices returns the GPUs, and the slices of divided GPUs. It is pure.
func (n *nvidia) devices() []found {
	gpus := n.gpus()
	var all []found
	described := make(map[string]bool)
	for i := range n.specs {
		d := &n.specs[i]
		g := gpuOf(gpus, d)
		if g != nil {
			described[g.uuid] = true
		}
		s := n.sliceOf(d, g)
		switch {
		case s != nil:
			described[s.uuid] = true
			all = append(all, n.slice(d.id(), s, g))
		case isSlice(d):
			all = append(all, n.unknownSlice(d, g))
		case !n.divided(d, g):
			all = append(all, n.gpu(d.id(), g))
		}
	}
	for i := range gpus {
		g := &gpus[i]
		if g.uuid != "" && !described[g.uuid] && !n.divided(nil, g) {
			one := n.gpu(n.idOf(g), g)
			one.Unhealthy, one.partial = noSpec, false
			all = append(all, one)
		}
	}
	for i := range n.slices {
		s := &n.slices[i]
		if !described[s.uuid] {
			one := n.slice(nvidiaGPU+"="+s.uuid, s, byUUID(gpus, s.parent))
			one.Unhealthy, one.partial = noSpec, false
			all = append(all, one)
		}
	}
	return all
}

// gpuOf returns the GPU of a description of a GPU or slice; nil if unknown.
func gpuOf(gpus []gpu, d *described) *gpu {
	if g := byUUID(gpus, d.name); g != nil {
		return g
	}
	minor := minorOf(d)
	i := slices.IndexFunc(gpus, func(g gpu) bool { return minor >= 0 && g.minor == minor })
	if i < 0 {
		return nil
	}
	return &gpus[i]
}

func byUUID(gpus []gpu, uuid string) *gpu {
	if i := slices.IndexFunc(gpus, func(g gpu) bool { return g.uuid != "" && g.uuid == uuid }); i >= 0 {
		return &gpus[i]
	}
	return nil
}

// minorOf returns the number of the device file /dev/nvidia0 in a description; -1 if there is none.
func minorOf(d *described) int {
	file := regexp.MustCompile(`^/dev/nvidia(\d+)$`)
	for _, node := range d.nodes {
		if m := file.FindStringSubmatch(node); m != nil {
			if minor, err := strconv.Atoi(m[1]); err == nil {
				return minor
			}
		}
	}
	return -1
}

// isSlice reports whether a description is of a slice: it has files that let a process use one.
func isSlice(d *described) bool {
	return strings.HasPrefix(d.name, "MIG-") || len(d.caps()) > 0
}

// sliceOf returns the slice of a description of g; nil if it is not of a known slice. The name of a
// slice is its UUID, or numbers such as 0:1.
func (n *nvidia) sliceOf(d *described, g *gpu) *slice {
	numbers := regexp.MustCompile(`^(?:mig)?\d+:(\d+)$`).FindStringSubmatch(d.name)
	for i := range n.slices {
		s := &n.slices[i]
		if s.uuid == d.name || numbers != nil && g != nil && s.parent == g.uuid && numbers[1] == strconv.Itoa(s.index) {
			return s
		}
	}
	return nil
}

// divided reports whether a GPU is in MIG mode: its slices are allocated instead, even if it has
// none.
func (n *nvidia) divided(d *described, g *gpu) bool {
	if g != nil && g.smi != nil {
		return strings.EqualFold(strings.TrimSpace(g.smi.MIG), "enabled")
	}
	// Without an answer of the driver: there are descriptions of its slices.
	minor := -1
	switch {
	case d != nil:
		minor = minorOf(d)
	case g != nil:
		minor = g.minor
	}
	return minor >= 0 && slices.ContainsFunc(n.specs, func(o described) bool { return isSlice(&o) && minorOf(&o) == minor })
}

// gpu returns a whole GPU; a nil g means that only its description is known.
func (n *nvidia) gpu(id string, g *gpu) found {
	out := found{Device: types.Device{ID: id, Resource: types.GPU, NUMA: unknownNUMA}}
	if g != nil {
		out.Model, out.Bus, out.NUMA = g.model, g.bus, g.numa
		links, read := n.links[g.uuid]
		out.Links, out.unlinked = links, !read
		if g.smi != nil {
			out.MemoryBytes = max(0, bytesOf(g.smi.Memory.Total))
		}
	}
	out.Unhealthy, out.partial = n.judge(g)
	return out
}

// slice returns a slice.
func (n *nvidia) slice(id string, s *slice, g *gpu) found {
	out := n.gpu(id, g)
	out.Resource, out.Parent, out.Links, out.MemoryBytes, out.unlinked = s.resource(), s.parent, nil, 0, false
	if out.Model != "" {
		out.Model += " MIG " + s.profile
	}
	if g == nil || g.smi == nil {
		return out
	}
	for i := range g.smi.Slices {
		if in := &g.smi.Slices[i]; in.Index == s.index {
			out.MemoryBytes = max(0, bytesOf(in.Memory.Total))
			if out.Unhealthy == "" && in.Volatile.any() {
				out.Unhealthy = "uncorrectable memory errors since its GPU was last reset"
			}
		}
	}
	return out
}

// unknownSlice returns a slice that the driver does not list. While the driver does not answer, the
// slice keeps its known properties.
func (n *nvidia) unknownSlice(d *described, g *gpu) found {
	out := found{Device: types.Device{ID: d.id(), NUMA: unknownNUMA}}
	if out.Unhealthy, out.partial = n.judge(g); !out.partial {
		out.partial, out.Unhealthy = true, "lost: nvidia-smi does not list this slice any more"
	}
	if g != nil {
		out.Bus, out.NUMA, out.Parent = g.bus, g.numa, g.uuid
	}
	return out
}

// judge returns why a GPU must not be allocated, and whether its properties are unknown.
func (n *nvidia) judge(g *gpu) (unhealthy string, partial bool) {
	if g != nil && n.lost[g.bus] != "" {
		return "lost: " + n.lost[g.bus], true
	}
	xid := ""
	if g != nil {
		xid = n.xids[g.bus]
	}
	switch {
	case n.trouble != "":
		return "the driver does not work: " + n.trouble, true
	case xid != "" && (n.silent || n.absent):
		return xid, true
	case n.silent:
		return silentReason, true
	case n.absent:
		return "", true
	case g == nil || g.smi == nil:
		return "lost: nvidia-smi does not list it", true
	}
	if text := g.smi.health(); text != "" {
		return text, g.smi.lost() != ""
	}
	return xid, false
}
