package devices

import (
	"encoding/xml"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// smiLog is what is read of the output of nvidia-smi -q -x. What it says of is described
// in NVIDIA's manual page of nvidia-smi; the names differ a little from driver to driver
// (nvsmi_device_v9.dtd to v13). What a GPU does not tell is N/A.
type smiLog struct {
	XMLName xml.Name `xml:"nvidia_smi_log"`
	Driver  string   `xml:"driver_version"`
	GPUs    []smiGPU `xml:"gpu"`
}

// smiGPU is one GPU of it.
type smiGPU struct {
	// Bus is 00000000:17:00.0; see busOf.
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
	// Recovery is what the driver wants done, since about 560: None, Reset, Reboot, Drain P2P,
	// Drain and Reset.
	Recovery string `xml:"gpu_recovery_action"`
	// Reset tells the same of older drivers: Yes or No.
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

// smiMemory is memory of a GPU, as texts like 81559 MiB.
type smiMemory struct {
	Total string `xml:"total"`
	Used  string `xml:"used"`
}

// smiErrors counts errors that could not be corrected, since the driver was loaded or the
// GPU reset.
type smiErrors struct {
	SRAM   string `xml:"sram_uncorrectable"`
	Parity string `xml:"sram_uncorrectable_parity"`
	SECDED string `xml:"sram_uncorrectable_secded"`
	DRAM   string `xml:"dram_uncorrectable"`
	// Double is that of GPUs before Turing.
	Double string `xml:"double_bit>total"`
}

// smiRetired is about pages that are used no more: pending are those that wait for a
// reset.
type smiRetired struct {
	Pending   string `xml:"pending_retirement"`
	Blacklist string `xml:"pending_blacklist"`
}

// smiRemapped is about rows that spare ones stand for.
type smiRemapped struct {
	Pending string `xml:"remapped_row_pending"`
	Failure string `xml:"remapped_row_failure"`
}

// smiProcess is a process with something on a GPU.
type smiProcess struct {
	GPU     string `xml:"gpu_instance_id"`
	Compute string `xml:"compute_instance_id"`
	PID     int    `xml:"pid"`
	Memory  string `xml:"used_memory"`
}

// parseSMI reads the output of nvidia-smi -q -x. Unavailable: it is none.
func parseSMI(text string) (*smiLog, error) {
	// A line of warning may stand before it.
	if at := strings.Index(text, "<?xml"); at > 0 {
		text = text[at:]
	}
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.Strict = false // Names of processes are printed as they are.
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

// busOf returns an address of the PCI bus as the kernel writes it, 0000:17:00.0, of what
// NVIDIA writes: 00000000:17:00.0, 0000:17:00.0 or 0000:17:00.
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

// bytesOf reads 81559 MiB; Unknown if it is no amount.
func bytesOf(text string) int64 {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	scale := map[string]int64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "MB": 1 << 20, "GiB": 1 << 30}[unit]
	if err != nil || scale == 0 || n < 0 || n > (1<<62)/scale {
		return Unknown
	}
	return n * scale
}

// percentOf reads 30 %; Unknown if it is none.
func percentOf(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%")))
	if err != nil || n < 0 || n > 100 {
		return Unknown
	}
	return n
}

// some reports whether a text counts something: N/A and 0 do not.
func some(texts ...string) bool {
	for _, text := range texts {
		if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil && n > 0 {
			return true
		}
	}
	return false
}
