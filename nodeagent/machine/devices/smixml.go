package devices

import (
	"encoding/xml"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// smiLog is the output of nvidia-smi -q -x. NVIDIA's manual page of nvidia-smi describes it. The
// names differ a little between drivers (nvsmi_device_v9.dtd to v13). Unknown values are N/A.
type smiLog struct {
	XMLName xml.Name `xml:"nvidia_smi_log"`
	Driver  string   `xml:"driver_version"`
	GPUs    []smiGPU `xml:"gpu"`
}

// smiGPU is one GPU of the output.
type smiGPU struct {
	// Bus is such as 00000000:17:00.0; see busOf.
	Bus    string     `xml:"id,attr"`
	Model  string     `xml:"product_name"`
	UUID   string     `xml:"uuid"`
	Minor  string     `xml:"minor_number"`
	MIG    string     `xml:"mig_mode>current_mig"`
	Slices []smiSlice `xml:"mig_devices>mig_device"`
	Memory smiMemory  `xml:"fb_memory_usage"`
	Busy   string     `xml:"utilization>gpu_util"`
	Heat   string     `xml:"temperature>gpu_temp"`
	ECC    string     `xml:"ecc_mode>current_ecc"`
	// Recovery is the action that the driver requests, since about 560: None, Reset, Reboot, Drain
	// P2P, Drain and Reset.
	Recovery string `xml:"gpu_recovery_action"`
	// Reset is the same for older drivers: Yes or No.
	Reset    string      `xml:"gpu_reset_status>reset_required"`
	Volatile smiErrors   `xml:"ecc_errors>volatile"`
	Exceeded string      `xml:"ecc_errors>aggregate>sram_threshold_exceeded"`
	Retired  smiRetired  `xml:"retired_pages"`
	Remapped smiRemapped `xml:"remapped_rows"`
	Fabric   struct {
		State  string `xml:"state"`
		Status string `xml:"status"`
	} `xml:"fabric"`
	Processes []smiProcess `xml:"processes>process_info"`
}

// smiSlice is a MIG slice of a GPU.
type smiSlice struct {
	Index    int       `xml:"index"`
	GPU      string    `xml:"gpu_instance_id"`
	Compute  string    `xml:"compute_instance_id"`
	Memory   smiMemory `xml:"fb_memory_usage"`
	Volatile smiErrors `xml:"ecc_error_count>volatile_count"`
}

// smiMemory is memory of a GPU, as texts such as 81559 MiB.
type smiMemory struct {
	Total string `xml:"total"`
	Used  string `xml:"used"`
}

// smiErrors are counters of uncorrectable errors since the driver was loaded or the GPU reset.
type smiErrors struct {
	SRAM   string `xml:"sram_uncorrectable"`
	Parity string `xml:"sram_uncorrectable_parity"`
	SECDED string `xml:"sram_uncorrectable_secded"`
	DRAM   string `xml:"dram_uncorrectable"`
	// Double is for GPUs before Turing.
	Double string `xml:"double_bit>total"`
}

// smiRetired describes retired pages: pending ones wait for a reset.
type smiRetired struct {
	Pending   string `xml:"pending_retirement"`
	Blacklist string `xml:"pending_blacklist"`
}

// smiRemapped describes rows that are replaced by spare ones.
type smiRemapped struct {
	Pending string `xml:"remapped_row_pending"`
	Failure string `xml:"remapped_row_failure"`
}

// smiProcess is a process that uses a GPU.
type smiProcess struct {
	GPU     string `xml:"gpu_instance_id"`
	Compute string `xml:"compute_instance_id"`
	PID     int    `xml:"pid"`
	Memory  string `xml:"used_memory"`
}

// parseSMI parses the output of nvidia-smi -q -x. Unavailable: text is not such an output.
func parseSMI(text string) (*smiLog, error) {
	// A warning may precede it.
	if at := strings.Index(text, "<?xml"); at > 0 {
		text = text[at:]
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.Strict = false // Names of processes are not escaped.
	log := new(smiLog)
	if err := dec.Decode(log); err != nil {
		return nil, types.Errorf(types.Unavailable, "nvidia-smi prints what cannot be read: %w", err)
	}
	for i := range log.GPUs {
		g := &log.GPUs[i]
		g.Bus, g.UUID, g.Model = busOf(g.Bus), strings.TrimSpace(g.UUID), strings.TrimSpace(g.Model)
	}
	return log, nil
}

// busOf converts an address of the PCI bus from NVIDIA's forms, 00000000:17:00.0, 0000:17:00.0 or
// 0000:17:00, to the kernel's: 0000:17:00.0.
func busOf(text string) string {
	domain, rest, ok := strings.Cut(strings.ToLower(strings.TrimSpace(text)), ":")
	if !ok || len(domain) < 4 {
		return ""
	}
	if !strings.Contains(rest, ".") {
		rest += ".0"
	}
	return domain[len(domain)-4:] + ":" + rest
}

// bytesOf parses an amount such as 81559 MiB; Unknown if text is not one.
func bytesOf(text string) int64 {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	scale := map[string]int64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "MB": 1 << 20, "GiB": 1 << 30}[unit]
	if err != nil || scale == 0 || n < 0 || n > (1<<62)/scale {
		return Unknown
	}
	return n * scale
}

// percentOf parses a percentage such as 30 %; Unknown if text is not one.
func percentOf(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%")))
	if err != nil || n < 0 || n > 100 {
		return Unknown
	}
	return n
}

// some reports whether one of the texts is a count above 0; N/A is not.
func some(texts ...string) bool {
	for _, text := range texts {
		if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil && n > 0 {
			return true
		}
	}
	return false
}
