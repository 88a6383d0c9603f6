// Package render formats values as text for people: durations, amounts, phases, sheets of fields.
package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// PhaseText formats the phase of a task, and its health if it is checked.
func PhaseText(phase types.Phase, health types.Health) string {
	if phase != types.Running || health == "" {
		return string(phase)
	}
	return fmt.Sprintf("%s (%s)", phase, health)
}

// DevicesText formats device requests, a text for each resource.
func DevicesText(requests []types.DeviceRequest) []string {
	var out []string
	for i := range requests {
		out = append(out, fmt.Sprintf("%s %s", requests[i].Resource, &requests[i]))
	}
	return out
}

// NeedsText is RequestsText, with the device requests.
func NeedsText(requests types.Requests, devices []types.DeviceRequest) string {
	texts := DevicesText(devices)
	if text := RequestsText(requests); text != "" {
		texts = append([]string{text}, texts...)
	}
	return strings.Join(texts, "; ")
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Shortly formats a duration with its largest units only.
func Shortly(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

// RequestsText formats a vector as flags take it.
func RequestsText(requests types.Requests) string {
	text := ""
	for i, r := range requests {
		if i > 0 {
			text += ","
		}
		text += r.Name + "=" + r.Amount.Format(types.ResourceID(r.Name))
	}
	return text
}

// UntilText is the inverse of parseUntil.
func UntilText(until controlplane.Until) string {
	for text, u := range Untils() {
		if u == until {
			return text
		}
	}
	return ""
}

// WithCode formats the exit code of a task that did not succeed, empty if it never ran.
func WithCode(s *types.Status) string {
	if s.Started == 0 && s.ExitCode == 0 {
		return ""
	}
	return fmt.Sprintf(" with exit code %d", s.ExitCode)
}

// Untils are the conditions of a wait, by their names.
func Untils() map[string]controlplane.Until {
	return map[string]controlplane.Until{
		"ended": controlplane.UntilEnded, "running": controlplane.UntilRunning, "bound": controlplane.UntilBound,
		"healthy": controlplane.UntilHealthy,
	}
}
