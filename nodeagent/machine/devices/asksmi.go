package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/types"
)

// askSMI queries nvidia-smi.
func (f *Finder) askSMI(ctx context.Context, n *nvidia) {
	n.links = f.links
	a, err := f.smi.query(ctx)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		n.absent = true
	} else if err == nil {
		n.read(a)
		if len(n.lost) > 0 && n.smi == nil {
			f.askEach(ctx, n)
		}
	}
	if err == nil && n.smi != nil {
		err = f.askSlices(ctx, n)
		f.askLinks(ctx, n)
	}
	n.silent = !n.absent && (err != nil || n.smi == nil && n.trouble == "" && len(n.lost) == 0)
	f.tell("nvidia-smi", n.complaint(err, a))
}

// read parses an answer of nvidia-smi -q -x. One lost GPU may make the whole answer unreadable.
func (n *nvidia) read(a answer) {
	n.lost = lostGPUs(a.text)
	log, err := parseSMI(a.text)
	switch {
	case err == nil:
		n.smi = log
	case a.code != 0 && len(n.lost) == 0:
		n.trouble = a.complaint()
		if n.trouble == "" {
			n.trouble = fmt.Sprintf("nvidia-smi exits with %d", a.code)
		}
	}
}

// complaint returns the message to log for an answer of nvidia-smi; "" means none.
func (n *nvidia) complaint(err error, a answer) string {
	switch {
	case err != nil:
		return oneLine(err)
	case n.trouble != "":
		return n.trouble
	case len(n.lost) > 0:
		return strings.Join(slices.Sorted(maps.Values(n.lost)), "; ")
	case n.silent:
		return "nvidia-smi prints what cannot be read: " + a.complaint()
	}
	return ""
}

// lostGPUs returns the complaints of nvidia-smi about single GPUs, by address:
//
//	Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU
//	Unable to determine the device handle for GPU2: 0000:3B:00.0: Unknown Error
func lostGPUs(text string) map[string]string {
	complaint := regexp.MustCompile(`(?im)^Unable to determine the device handle for gpu\s*\d*:?\s*([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]):\s*(.+)$`)
	out := make(map[string]string)
	for _, m := range complaint.FindAllStringSubmatch(text, -1) {
		out[busOf(m[1])] = strings.Join(strings.Fields(m[2]), " ")
	}
	return out
}

// askEach queries the GPUs that are not lost, one by one.
func (f *Finder) askEach(ctx context.Context, n *nvidia) {
	// All queries together have the time of one.
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	all := new(smiLog)
	for _, p := range n.proc {
		if n.lost[p.bus] != "" {
			continue
		}
		a, err := f.smi.ask(ctx, "-q", "-x", "-i", p.bus)
		if err != nil {
			continue
		}
		maps.Copy(n.lost, lostGPUs(a.text))
		if log, err := parseSMI(a.text); err == nil {
			all.GPUs = append(all.GPUs, log.GPUs...)
		}
	}
	if len(all.GPUs) > 0 {
		n.smi = all
	}
}

// askSlices lists the slices if a GPU is divided.
func (f *Finder) askSlices(ctx context.Context, n *nvidia) error {
	if !slices.ContainsFunc(n.smi.GPUs, func(g smiGPU) bool { return len(g.Slices) > 0 }) {
		return nil
	}
	a, err := f.smi.ask(ctx, "-L")
	if err != nil {
		return err
	}
	if n.slices = parseList(a.text); len(n.slices) == 0 {
		return types.Errorf(types.Unavailable, "nvidia-smi -L lists no slices: %s", a.complaint())
	}
	return nil
}

// askLinks reads the links between GPUs, if the GPUs have changed.
func (f *Finder) askLinks(ctx context.Context, n *nvidia) {
	var uuids []string
	for i := range n.smi.GPUs {
		uuids = append(uuids, n.smi.GPUs[i].UUID)
	}
	these := strings.Join(uuids, " ")
	if len(uuids) < 2 || len(n.lost) > 0 || f.linked == these {
		return // The known links stay.
	}
	a, err := f.smi.ask(ctx, "topo", "-m")
	if err != nil || a.code != 0 {
		return // The next Find tries again.
	}
	links := make(map[string][]string)
	for i, of := range linksOf(parseTopo(a.text, len(uuids))) {
		links[uuids[i]] = of
	}
	f.links, f.linked, n.links = links, these, links
}

// since returns the time since which nvidia-smi does not answer; zero if it answers.
func (n *nvidia) since(f *Finder) time.Time {
	switch {
	case !n.silent:
		return time.Time{}
	case f.silent.IsZero():
		return f.cfg.Now()
	}
	return f.silent
}

// name records nvidia-smi's names of the devices: a GPU by its UUID, a slice by the UUID of its GPU
// and its number there.
func (f *Finder) name(n *nvidia) {
	if n.smi == nil {
		return // Keep the previous names.
	}
	ids := make(map[string]string)
	gpus := n.gpus()
	for i := range n.specs {
		d := &n.specs[i]
		g := gpuOf(gpus, d)
		if s := n.sliceOf(d, g); s != nil {
			ids[sliceName(s.parent, s.index)] = d.id()
		} else if g != nil && !isSlice(d) && !n.divided(d, g) {
			ids[g.uuid] = d.id()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = ids
}
