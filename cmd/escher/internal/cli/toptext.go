package cli

import (
	"math"
	"strconv"

	sampled "github.com/escher-sched/escher/nodeagent/machine/usage"
)

// What follows formats what is used; what is not known is empty.

// coresText formats thousandths of a core as cores.
func coresText(milli *float64) string {
	if milli == nil {
		return ""
	}
	return strconv.FormatFloat(*milli/1000, 'f', 2, 64)
}

// bytesText formats an amount of memory to three digits or so.
func bytesText(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	return amountText(float64(*bytes))
}

// rateText formats bytes a second.
func rateText(rate *float64) string {
	if rate == nil {
		return ""
	}
	return amountText(math.Round(*rate))
}

func amountText(value float64) string {
	const ki = 1 << 10
	units := []string{"B", "Ki", "Mi", "Gi", "Ti"}
	for value >= 1000 && len(units) > 1 {
		value, units = value/ki, units[1:]
	}
	digits := 0
	if value < 10 && units[0] != "B" {
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + units[0]
}

// percentText formats a part of a hundred.
func percentText(percent float64) string { return strconv.FormatFloat(percent, 'f', 0, 64) + "%" }

// ofLimitText is how much of its limit the memory is.
func ofLimitText(u sampled.Use) string {
	if u.MemoryBytes == nil || u.MemoryLimitBytes == nil {
		return ""
	}
	return percentText(100 * float64(*u.MemoryBytes) / float64(*u.MemoryLimitBytes))
}

// pressureText names the resource for which something waited most: io 12%.
func pressureText(p *sampled.Pressure) string {
	if p == nil {
		return ""
	}
	name, most := "", -1.0
	for _, r := range []struct {
		name  string
		stall *sampled.Stall
	}{{"cpu", p.CPU}, {"memory", p.Memory}, {"io", p.IO}} {
		if r.stall != nil && r.stall.SomePercent10s > most {
			name, most = r.name, r.stall.SomePercent10s
		}
	}
	switch {
	case most < 0:
		return ""
	case most < 0.5:
		return "0%"
	}
	return name + " " + percentText(most)
}

// busyText is how busy devices are, in the mean.
func busyText(devices []sampled.Device) string {
	percent := busy(devices)
	if percent == nil {
		return ""
	}
	return percentText(*percent)
}

// deviceMemoryText is how much of the memory of devices is used.
func deviceMemoryText(devices []sampled.Device) string {
	var used, total int64
	known := false
	for _, d := range devices {
		if d.MemoryBytes != nil && d.MemoryTotalBytes != nil {
			known = true
			used, total = used+*d.MemoryBytes, total+*d.MemoryTotalBytes
		}
	}
	if !known {
		return ""
	}
	return amountText(float64(used)) + "/" + amountText(float64(total))
}
