package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	sampled "github.com/escher-sched/escher/nodeagent/machine/usage"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
)

// usage is what an attempt uses; nil if its node does not tell soon.
func (d *describing) usage(ctx context.Context, id cluster.ID, node string, attempt int) *sampled.Task {
	ctx, cancel := context.WithTimeout(ctx, topAnswer)
	defer cancel()
	var used sampled.Task
	err := d.f.onNode(ctx, node, func(c *nodeapi.Client) (err error) {
		used, err = c.UsageOf(ctx, id.Namespace, id.ID, attempt, time.Time{})
		return err
	})
	if err != nil {
		return nil
	}
	return &used
}

// writeUsage writes what it uses; what is not known is left out.
func (t *taskDescription) writeUsage(s *sheet) {
	u := t.Usage
	if u == nil {
		return
	}
	s.group("Uses")
	s.line("  cpu", cpuSentence(u.Use))
	s.line("  memory", memorySentence(u.Use))
	s.line("  disk", diskSentence(u.Use))
	if u.Processes != nil {
		s.line("  processes", strconv.FormatInt(*u.Processes, 10))
	}
	s.line("  pressure", pressureText(u.Pressure))
	var devices []string
	for _, d := range u.Devices {
		devices = append(devices, deviceSentence(d))
	}
	s.lines("  devices", devices)
}

func cpuSentence(u sampled.Use) string {
	var parts []string
	if u.CPUMilli != nil {
		parts = append(parts, coresText(u.CPUMilli)+" cores")
	} else if u.CPUSeconds != nil {
		parts = append(parts, fmt.Sprintf("%.2f s so far", *u.CPUSeconds))
	}
	if u.ThrottledSeconds != nil {
		parts = append(parts, fmt.Sprintf("%.2f s held back by its limit", *u.ThrottledSeconds))
	}
	return strings.Join(parts, ", ")
}

func memorySentence(u sampled.Use) string {
	if u.MemoryBytes == nil {
		return ""
	}
	text := bytesText(u.MemoryBytes)
	if part := ofLimitText(u); part != "" {
		text += ", " + part + " of " + bytesText(u.MemoryLimitBytes)
	}
	text += "; " + bytesText(u.MemoryRSSBytes) + " without files"
	if u.MemoryPeakBytes != nil {
		text += ", at most " + bytesText(u.MemoryPeakBytes) + " so far"
	}
	if kills := orZero(u.OOMKills); kills > 0 {
		text += fmt.Sprintf("; %d processes were killed for want of it", kills)
	}
	return text
}

func diskSentence(u sampled.Use) string {
	if u.IOReadBytes == nil {
		return ""
	}
	text := bytesText(u.IOReadBytes) + " read, " + bytesText(u.IOWriteBytes) + " written"
	if u.IOReadBytesPerSecond != nil {
		text = fmt.Sprintf("reads %s/s, writes %s/s; ", rateText(u.IOReadBytesPerSecond), rateText(u.IOWriteBytesPerSecond)) + text
	}
	return text
}

func deviceSentence(d sampled.Device) string {
	one := []sampled.Device{d}
	var parts []string
	if text := busyText(one); text != "" {
		parts = append(parts, text+" busy")
	}
	if text := deviceMemoryText(one); text != "" {
		parts = append(parts, text+" of memory used")
	}
	if d.TaskMemoryBytes != nil {
		parts = append(parts, bytesText(d.TaskMemoryBytes)+" by this task")
	}
	return d.ID + ": " + first(strings.Join(parts, ", "), "nothing is known")
}
