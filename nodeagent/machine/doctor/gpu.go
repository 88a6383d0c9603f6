package doctor

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// gatherGPU looks for NVIDIA cards, their driver, and the CDI specifications.
func gatherGPU(ctx context.Context, h host, src Source) GPU {
	var g GPU
	for _, path := range h.glob("/sys/bus/pci/devices/*/vendor") {
		const nvidia, display = "0x10de", "0x03"
		dir := strings.TrimSuffix(path, "/vendor")
		if h.text(path) == nvidia && strings.HasPrefix(h.text(dir+"/class"), display) {
			g.Cards++
		}
	}
	// NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb …
	for field := range strings.FieldsSeq(h.text("/proc/driver/nvidia/version")) {
		if g.Driver == "" && strings.Count(field, ".") >= 1 && field[0] >= '0' && field[0] <= '9' {
			g.Driver = field
		}
	}
	g.Nodes = h.has("/dev/nvidiactl")
	g.Systemd = h.has("/run/systemd/system") || strings.Contains(h.text("/etc/containerd/config.toml"), "SystemdCgroup = true")
	// 195:255 is nvidiactl.
	g.CharLinks = h.has("/dev/char/195:255")
	if g.SMI = cmp.Or(src.SMI, find("nvidia-smi")); g.SMI != "" && (g.Cards > 0 || g.Driver != "") {
		out, err := ask(ctx, probeWait, g.SMI, "-L")
		g.Hangs = errors.Is(err, errHangs)
		if err != nil {
			line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
			g.SMIError = cmp.Or(line, err.Error())
		}
	}
	g.Specs, g.CDIErrors = readCDI(src.CDIDirs)
	return g
}

// readCDI reads the specifications of devices, and checks whether their device nodes exist.
func readCDI(dirs []string) (specs []CDISpec, wrong []string) {
	options := []cdi.Option{cdi.WithAutoRefresh(false)}
	if len(dirs) > 0 {
		options = append(options, cdi.WithSpecDirs(dirs...))
	}
	cache, err := cdi.NewCache(options...)
	if err != nil {
		return nil, []string{err.Error()}
	}
	errs := cache.GetErrors()
	for _, path := range slices.Sorted(maps.Keys(errs)) {
		for _, err := range errs[path] {
			wrong = append(wrong, err.Error())
		}
	}
	for _, vendor := range cache.ListVendors() {
		for _, s := range cache.GetVendorSpecs(vendor) {
			spec := CDISpec{Path: s.GetPath(), Kind: s.Kind, Devices: len(s.Devices)}
			for _, d := range s.Devices {
				for _, node := range d.ContainerEdits.DeviceNodes {
					path := cmp.Or(node.HostPath, node.Path)
					if _, err := os.Stat(path); err != nil && !slices.Contains(spec.Missing, path) {
						spec.Missing = append(spec.Missing, path)
					}
				}
			}
			slices.Sort(spec.Missing)
			specs = append(specs, spec)
		}
	}
	slices.SortFunc(specs, func(a, b CDISpec) int { return strings.Compare(a.Path, b.Path) })
	return specs, wrong
}
