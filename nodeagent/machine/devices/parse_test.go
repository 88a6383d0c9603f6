package devices

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestNumbersOfDrivers: what is no number, out of its range or of an unknown unit is unknown.
func TestNumbersOfDrivers(t *testing.T) {
	for text, want := range map[string]int64{
		"81559 MiB": 81559 << 20, " 1 GiB ": 1 << 30, "5 KiB": 5 << 10, "7 B": 7, "0 MiB": 0, "2 MB": 2 << 20, "4294967296 GiB": 1 << 62,
		"4294967297 GiB": Unknown, "N/A": Unknown, "": Unknown, "5": Unknown, "5 TiB": Unknown, "-1 MiB": Unknown, "1.5 GiB": Unknown, "MiB": Unknown, "9223372036854775808 B": Unknown,
	} {
		if got := bytesOf(text); got != want {
			t.Errorf("bytes %q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]int{
		"30 %": 30, "0 %": 0, "100%": 100, " 7 % ": 7, "101 %": Unknown, "-1 %": Unknown, "N/A": Unknown, "": Unknown, "%": Unknown, "30 % %": Unknown,
	} {
		if got := percentOf(text); got != want {
			t.Errorf("percent %q: %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"00000000:17:00.0": "0000:17:00.0", "0000:3B:00": "0000:3b:00.0", " 0000:17:00.0\n": "0000:17:00.0", "00010000:01:00.1": "0000:01:00.1",
		"": "", "N/A": "", "17:00.0": "", "Unknown Error": "", "1-1:1.0": "",
	} {
		if got := busOf(text); got != want {
			t.Errorf("bus %q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{"1": true, " 2 ": true, "0": false, "N/A": false, "": false, "-1": false, "18446744073709551615": true} {
		if got := some("N/A", text, "0"); got != want {
			t.Errorf("some %q: %t", text, got)
		}
	}
}

// TestHealthOfDrivers: the worst that the driver says of a GPU decides, and sensors that fail or
// values that are unknown do not make it unhealthy.
func TestHealthOfDrivers(t *testing.T) {
	for name, test := range map[string]struct {
		gpu  smiGPU
		says string // "" if it is healthy
	}{
		"nothing is known":          {smiGPU{}, ""},
		"nothing is reported":       {smiGPU{Recovery: "N/A", Reset: "N/A", Volatile: smiErrors{SRAM: "N/A", Double: "N/A"}, Retired: smiRetired{Pending: "N/A"}}, ""},
		"all is well":               {smiGPU{Recovery: "None", Reset: "No", Volatile: smiErrors{SRAM: "0", DRAM: "0"}}, ""},
		"it is lost":                {smiGPU{Heat: "[GPU is lost]", Recovery: "Reset"}, "lost"},
		"its memory is unknown":     {smiGPU{Memory: smiMemory{Used: "Unknown Error"}}, "lost"},
		"it wants a reboot":         {smiGPU{Recovery: "Reboot", Reset: "Yes"}, "reboot"},
		"it wants to be drained":    {smiGPU{Recovery: "Drain P2P"}, "--gpu-reset"},
		"it wants a reset":          {smiGPU{UUID: "GPU-7", Reset: " yes\n"}, "--gpu-reset -i GPU-7"},
		"its rows are used up":      {smiGPU{Remapped: smiRemapped{Failure: "Yes", Pending: "Yes"}}, "no rows left"},
		"it has exceeded its limit": {smiGPU{Exceeded: "Yes"}, "replaced"},
		"rows wait":                 {smiGPU{Remapped: smiRemapped{Pending: "Yes"}, Volatile: smiErrors{DRAM: "1"}}, "bad rows"},
		"pages wait":                {smiGPU{Retired: smiRetired{Blacklist: "Yes"}}, "bad pages"},
		"an error in SRAM":          {smiGPU{Volatile: smiErrors{Parity: "1"}}, "uncorrectable"},
		"an error of an old GPU":    {smiGPU{Volatile: smiErrors{Double: "3"}}, "uncorrectable"},
		"its fabric begins":         {gpuOfFabric("In Progress", ""), "fabric"},
		"its fabric has failed":     {gpuOfFabric("Completed", "Failure"), "fabric"},
		"its fabric is there":       {gpuOfFabric("Completed", "Success"), ""},
		"its fabric says no more":   {gpuOfFabric("Completed", "N/A"), ""},
		"it has no fabric":          {gpuOfFabric("N/A", "N/A"), ""},
	} {
		if got := test.gpu.health(); (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
			t.Errorf("%s: %q, want %q", name, got, test.says)
		}
	}
}

func gpuOfFabric(state, status string) smiGPU {
	var g smiGPU
	g.Fabric.State, g.Fabric.Status = state, status
	return g
}

// TestTopologies: a matrix in a form that is not known gives no links, and other columns and the
// colors of a terminal none either.
func TestTopologies(t *testing.T) {
	const head = "\tGPU0\tGPU1\tGPU2\tNIC0\tCPU Affinity\n"
	all := "GPU0\tX\tNV12\tSYS\tPXB\t0-31\nGPU1\tNV12\tX\tNV4\tNODE\t0-31\nGPU2\tSYS\tNV4\tX\tSYS\t0-31\n"
	for name, test := range map[string]struct {
		text string
		n    int
		want string // the links of each
	}{
		"three":                     {head + all, 3, "[[nvlink0-1] [nvlink0-1 nvlink1-2] [nvlink1-2]]"},
		"colored":                   {"\x1b[4m" + head + "\x1b[0m" + all, 3, "[[nvlink0-1] [nvlink0-1 nvlink1-2] [nvlink1-2]]"},
		"after a warning":           {"WARNING: persistence\n\n" + head + all, 3, "[[nvlink0-1] [nvlink0-1 nvlink1-2] [nvlink1-2]]"},
		"more than there are":       {head + all, 2, "[[nvlink0] [nvlink0]]"},
		"fewer than there are":      {head + all, 4, "[[nvlink0-1] [nvlink0-1 nvlink1-2] [nvlink1-2] []]"},
		"a row that breaks off":     {head + "GPU0\tX\tNV12\n" + "GPU1\tNV12\tX\tNV4\t0-31\n", 3, "[[] [] []]"},
		"a network card with links": {head + "NIC0\tNV1\tNV1\tNV1\tX\n", 3, "[[] [] []]"},
		"links to itself":           {head + "GPU0\tNV1\tSYS\tSYS\tSYS\n", 3, "[[] [] []]"},
		"no links but words":        {head + "GPU0\tX\tNV\tNV0\tSYS\n" + "GPU1\tNVx\tX\tNV-1\tSYS\n", 3, "[[] [] []]"},
		"no head":                   {all, 3, "[[] [] []]"},
		"nothing":                   {"", 2, "[[] []]"},
		"an escape without its end": {"\x1b[4", 1, "[[]]"},
	} {
		if got := fmt.Sprint(linksOf(parseTopo(test.text, test.n))); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestSlicesInLists: slices belong to the GPU before them, and a line that is no slice is none.
func TestSlicesInLists(t *testing.T) {
	const gpu, mig = "GPU 0: A100 (UUID: GPU-1)\n", "  MIG 1g.10gb+me  Device  3: (UUID: MIG-2)\n"
	for text, want := range map[string]int{
		gpu + mig: 1, gpu + mig + mig: 2, mig + gpu: 0, gpu: 0, "": 0, gpu + "  MIG 1g.5gb Device x: (UUID: MIG-2)\n": 0,
		gpu + "  MIG 1g.5gb Device 99999999999999999999: (UUID: MIG-2)\n": 0, gpu + "MIG 1g.5gb Device 0: (UUID: MIG-2)\n": 0, gpu + "  MIG 1g.5gb Device 0: (UUID: GPU-2)\n": 0,
	} {
		got := parseList(text)
		if len(got) != want || want > 0 && (got[0] != slice{"MIG-2", "GPU-1", "1g.10gb+me", 3} || got[0].resource() != "nvidia.com/mig-1g.10gb.me") {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestParseSMI: a warning before the output and a process with any name do no harm, and other texts
// are refused.
func TestParseSMI(t *testing.T) {
	const whole = `<?xml version="1.0" ?><nvidia_smi_log><driver_version>5</driver_version><gpu id="00000000:17:00.0"><uuid> GPU-1 </uuid>` +
		`<processes><process_info><pid>7</pid><process_name>a & b</process_name></process_info></processes></gpu></nvidia_smi_log>`
	for _, text := range []string{whole, "WARNING: infoROM is corrupted\n" + whole} {
		log, err := parseSMI(text)
		if err != nil || len(log.GPUs) != 1 || log.GPUs[0].UUID != "GPU-1" || log.GPUs[0].Bus != "0000:17:00.0" || log.GPUs[0].Processes[0].PID != 7 {
			t.Errorf("%.20q: %+v, %v", text, log, err)
		}
	}
	for _, text := range []string{"", "No devices were found", "<html></html>", whole[:60], `<?xml version="1.0" ?>`} {
		if log, err := parseSMI(text); !types.Is(err, types.Unavailable) {
			t.Errorf("%.20q: %+v, %v", text, log, err)
		}
	}
}

// TestXids: the latest error of a GPU within ten minutes counts, unless a program causes it.
func TestXids(t *testing.T) {
	xid := func(seconds int, bus string, code int) string {
		return fmt.Sprintf("4,1207,%d000000,-;NVRM: Xid (PCI:%s): %d, pid=1, name=x\n SUBSYSTEM=pci\n", seconds, bus, code)
	}
	for name, test := range map[string]struct {
		uptime, log string
		want        map[string]string
	}{
		"one now":             {"1000.00 5.0\n", xid(1000, "0000:3b:00", 79), map[string]string{"0000:3b:00.0": "Xid 79: it has fallen off the bus"}},
		"ten minutes ago":     {"1000.00 5.0\n", xid(400, "0000:3b:00", 79), map[string]string{"0000:3b:00.0": "Xid 79: it has fallen off the bus"}},
		"longer ago":          {"1000.00 5.0\n", xid(399, "0000:3b:00", 79), map[string]string{}},
		"soon after the boot": {"5.00 5.0\n", xid(1, "0000:3b:00", 79), map[string]string{"0000:3b:00.0": "Xid 79: it has fallen off the bus"}},
		"the last of two":     {"1000 5\n", xid(900, "0000:3b:00", 79) + xid(901, "0000:3B:00.0", 48), map[string]string{"0000:3b:00.0": "Xid 48: an uncorrectable memory error"}},
		"of two":              {"1000 5\n", xid(900, "0000:3b:00", 62) + xid(901, "0000:3c:00", 120), map[string]string{"0000:3b:00.0": "Xid 62: its firmware does not answer", "0000:3c:00.0": "Xid 120: its firmware does not answer"}},
		"of a program":        {"1000 5\n", xid(900, "0000:3b:00", 13) + xid(900, "0000:3b:00", 31) + xid(900, "0000:3b:00", 43), map[string]string{}},
		"of another module":   {"1000 5\n", "4,1,900000000,-;nvme: Xid (PCI:0000:3b:00): 79\n", map[string]string{}},
		"a code too long":     {"1000 5\n", "4,1,900000000,-;NVRM: Xid (PCI:0000:3b:00): 99999999999999999999\n", map[string]string{}},
		"no uptime":           {"", xid(900, "0000:3b:00", 79), nil},
	} {
		f := New(Config{Root: t.TempDir()})
		for file, text := range map[string]string{"proc/uptime": test.uptime, "dev/kmsg": test.log} {
			path := filepath.Join(f.cfg.Root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.xids(); !maps.Equal(got, test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
