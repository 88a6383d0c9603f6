package render

import (
	"math"
	"strconv"

	"github.com/escher-sched/escher/types/measured"
)

// The following functions format usage; unknown values are empty.

// CoresText formats thousandths of a core as cores.
func CoresText(milli *float64) string {
	if milli == nil {
		return ""
	}
	return strconv.FormatFloat(*milli/1000, 'f', 2, 64)
}

// BytesText formats an amount of memory to about three digits.
func BytesText(bytes *int64) string {
	if bytes == nil {
		return ""
	}
	return amountText(float64(*bytes))
}

// RateText formats bytes per second.
func RateText(rate *float64) string {
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

// percentText formats a percentage.
func percentText(percent float64) string { return strconv.FormatFloat(percent, 'f', 0, 64) + "%" }

// OfLimitText formats memory as a part of its limit.
func OfLimitText(u measured.Use) string {
	if u.MemoryBytes == nil || u.MemoryLimitBytes == nil {
		return ""
	}
	return percentText(100 * float64(*u.MemoryBytes) / float64(*u.MemoryLimitBytes))
}

// PressureText names the resource with the most waiting: io 12%.
func PressureText(p *measured.Pressure) string {
	if p == nil {
		return ""
	}
	name, most := "", -1.0
	for _, r := range []struct {
		name  string
		stall *measured.Stall
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

// BusyText formats the average utilization of devices.
func BusyText(devices []measured.Device) string {
	percent := Busy(devices)
	if percent == nil {
		return ""
	}
	return percentText(*percent)
}

// DeviceMemoryText formats the memory in use of devices.
func DeviceMemoryText(devices []measured.Device) string {
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

func OrZero[T int64 | float64](n *T) T {
	if n == nil {
		return 0
	}
	return *n
}

// Busy is the average utilization of devices, in percent; nil if unknown.
func Busy(devices []measured.Device) *float64 {
	var sum float64
	n := 0
	for _, d := range devices {
		if d.BusyPercent != nil {
			sum += *d.BusyPercent
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return new(sum / float64(n))
}
