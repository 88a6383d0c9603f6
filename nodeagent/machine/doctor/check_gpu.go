package doctor

import (
	"fmt"
	"strings"

	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/words"
)

const generateCDI = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"

func checkGPUs(f Facts) []Finding {
	d, g := of("gpus"), f.GPU
	if g.Cards == 0 && g.Driver == "" {
		return d.done("no NVIDIA card")
	}
	specified := false
	for _, s := range g.Specs {
		specified = specified || strings.HasPrefix(s.Kind, "nvidia.com/")
	}
	switch {
	case g.Driver == "":
		d.problem("no driver is loaded for "+words.Count(g.Cards, "NVIDIA card"), "apt-get install nvidia-driver, and modprobe nvidia")
		return d.all
	case !g.Nodes:
		d.problem("the driver is loaded, and /dev/nvidiactl is not there", "nvidia-modprobe -u -c0")
	case !specified:
		d.problem("the driver is loaded, and no CDI specification names its devices: no container could be given one", generateCDI)
	}
	switch {
	case g.SMI == "":
		d.warn("nvidia-smi is not installed: model, memory, links and health of GPUs are not known", "apt-get install nvidia-smi")
	case g.Hangs:
		d.problem("nvidia-smi does not answer: the driver or a card hangs", "nvidia-bug-report.sh; then %s, and restart the machine", action.Drain.Of())
	case strings.Contains(g.SMIError, "mismatch"):
		d.problem("library and loaded driver differ, as after an upgrade: "+g.SMIError, "%s, then restart the machine, or rmmod and modprobe nvidia; then %s", action.Drain.Of(), generateCDI)
	case g.SMIError != "":
		d.problem("nvidia-smi fails: "+g.SMIError, "nvidia-smi, and dmesg | grep -i nvrm")
	}
	if g.Systemd && g.Nodes && !g.CharLinks {
		d.warn("/dev/char has no links to the GPUs: where systemd keeps the control groups, containers lose theirs at systemctl daemon-reload",
			"nvidia-ctk system create-dev-char-symlinks --create-all, and a udev rule that does so at each boot")
	}
	return d.done(words.Count(g.Cards, "NVIDIA card") + ", driver " + g.Driver)
}

func checkCDI(f Facts) []Finding {
	d := of("cdi")
	for _, wrong := range f.GPU.CDIErrors {
		d.problem("a specification cannot be read: "+wrong, "correct or remove it")
	}
	devices := 0
	for _, s := range f.GPU.Specs {
		devices += s.Devices
		if len(s.Missing) == 0 {
			continue
		}
		remedy := "make it again with the tool that made it"
		if strings.HasPrefix(s.Kind, "nvidia.com/") {
			remedy = "nvidia-ctk cdi generate --output=" + s.Path
		}
		d.problem(fmt.Sprintf("%s names %s, and there is no such device: no container that is given it could start", s.Path, strings.Join(s.Missing, ", ")), "%s", remedy)
	}
	return d.done(words.Count(devices, "device") + " in " + words.Count(len(f.GPU.Specs), "specification"))
}
