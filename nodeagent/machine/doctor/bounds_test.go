package doctor

import (
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// ofV1 are the control groups of a machine with v1.
func ofV1() cgroup.Facts {
	return cgroup.Facts{Root: "/sys/fs/cgroup", Controllers: []string{"cpu", "devices", "freezer", "memory", "pids"}, Swap: true}
}

// TestVersions: the first two numbers of a version, with what systems put around them.
func TestVersions(t *testing.T) {
	for text, want := range map[string][2]int{
		"5.10.0-18-amd64": {5, 10}, "v1.6.20~ds1": {1, 6}, "1.1": {1, 1}, "2.0-rc.1": {2, 0}, "6.1+": {6, 1}, "4.15rc2": {4, 15},
		"": {-1}, "6": {-1}, "v": {-1}, "6.": {-1}, "6.x": {-1}, "x.6": {-1}, ".6": {-1}, "mine": {-1}, "99999999999999999999.1": {-1},
	} {
		if major, minor, ok := version(text); ok != (want[0] >= 0) || ok && (major != want[0] || minor != want[1]) {
			t.Errorf("%q: %d.%d, %t", text, major, minor, ok)
		}
	}
}

// TestBounds: each check changes its mind at its bound, and nowhere before.
func TestBounds(t *testing.T) {
	validity := func(d time.Duration) func(f *Facts) {
		return func(f *Facts) { f.Network.API.NotAfter = f.Now.Add(d) }
	}
	disk := func(free, size int64) func(f *Facts) {
		return func(f *Facts) { f.StateDir.Free, f.StateDir.Size = free, size }
	}
	atBounds(t, map[string]bound{
		"the first kernel":                   {func(f *Facts) { f.Release, f.Cgroups = "4.15.0", ofV1() }, "kernel", Warning},
		"a kernel before it":                 {func(f *Facts) { f.Release, f.Cgroups = "4.14.336", ofV1() }, "kernel", Problem},
		"the first kernel with v2":           {func(f *Facts) { f.Release = "5.2.0" }, "kernel", Warning},
		"the first kernel with fixes":        {func(f *Facts) { f.Release = "5.10.0" }, "kernel", OK},
		"a clock off by a second":            {func(f *Facts) { f.Clock.MaxError = time.Second }, "clock", OK},
		"a clock off by more":                {func(f *Facts) { f.Clock.MaxError = time.Second + 1 }, "clock", Warning},
		"enough files":                       {func(f *Facts) { f.Limits.OpenFiles = 4096 }, "limits", OK},
		"too few files":                      {func(f *Facts) { f.Limits.OpenFiles = 4095 }, "limits", Warning},
		"a limit that is unknown":            {func(f *Facts) { f.Limits.OpenFiles = 0 }, "limits", OK},
		"no limit of files":                  {func(f *Facts) { f.Limits.AllFiles = 1<<63 - 1 }, "limits", OK},
		"just enough free":                   {disk(leastFree, leastFree*littlePart), "state dir", OK},
		"too little free":                    {disk(leastFree-1, leastFree), "state dir", Problem},
		"a twentieth free":                   {disk(10<<30, 200<<30), "state dir", OK},
		"less than a twentieth free":         {disk(10<<30-1, 200<<30), "state dir", Warning},
		"a small part of a large disk":       {disk(littleFree, 1<<50), "state dir", OK},
		"a size that is unknown":             {disk(0, 0), "state dir", OK},
		"a hundredth of the inodes":          {func(f *Facts) { f.StateDir.Inodes, f.StateDir.FreeInodes = 1000, 10 }, "state dir", OK},
		"fewer inodes":                       {func(f *Facts) { f.StateDir.Inodes, f.StateDir.FreeInodes = 1000, 9 }, "state dir", Problem},
		"a file system without inodes":       {func(f *Facts) { f.StateDir.Inodes, f.StateDir.FreeInodes = 0, 0 }, "state dir", OK},
		"a fast disk":                        {func(f *Facts) { f.StateDir.Fsync = slowFsync }, "state dir", OK},
		"a slow disk":                        {func(f *Facts) { f.StateDir.Fsync = slowFsync + 1 }, "state dir", Warning},
		"a state dir that root's group read": {func(f *Facts) { f.StateDir.Mode = 0o740 }, "state dir", Warning},
		"a state dir that others write":      {func(f *Facts) { f.StateDir.Mode = 0o702 }, "state dir", Problem},
		"a state dir to be made":             {func(f *Facts) { f.StateDir.At, f.StateDir.Mode, f.StateDir.UID = "/var", 0o777, 5 }, "state dir", OK},
		"logs at their limit":                {func(f *Facts) { f.LogBytes = nodeagent.DefaultLogBytes + nodeagent.DefaultLogBytes/10 }, "logs", OK},
		"logs beyond it":                     {func(f *Facts) { f.LogBytes = nodeagent.DefaultLogBytes + nodeagent.DefaultLogBytes/10 + 1 }, "logs", Warning},
		"the first containerd":               {func(f *Facts) { f.Containerd.Serving = "1.6.0" }, "containerd", OK},
		"one before it":                      {func(f *Facts) { f.Containerd.Serving = "v1.5.18" }, "containerd", Problem},
		"the second containerd":              {func(f *Facts) { f.Containerd.Serving = "v2.0.1" }, "containerd", OK},
		"a containerd without a version":     {func(f *Facts) { f.Containerd.Serving = "dev" }, "containerd", OK},
		"runc 1.0 with v1":                   {func(f *Facts) { f.Containerd.RuncVersion, f.Cgroups = "1.0.0", ofV1() }, "runc", OK},
		"runc 1.0 with v2":                   {func(f *Facts) { f.Containerd.RuncVersion = "1.0.0" }, "runc", Warning},
		"runc that cannot be read":           {func(f *Facts) { f.Containerd.RuncVersion = "?" }, "runc", Warning},
		"runc that does not run":             {func(f *Facts) { f.Containerd.RuncVersion, f.Containerd.RuncError = "", "no" }, "runc", Problem},
		"runc 2":                             {func(f *Facts) { f.Containerd.RuncVersion = "2.0.0" }, "runc", OK},
		"a certificate in its last moment":   {validity(0), "node certificate", Warning},
		"a certificate that just ended":      {validity(-time.Second), "node certificate", Problem},
		"a certificate that ends soon":       {validity(soon - 1), "node certificate", Warning},
		"a certificate that ends later":      {validity(soon), "node certificate", OK},
	})
}

// TestBoundsOfPorts: ports that the kernel or the API takes count from the first to the last one.
func TestBoundsOfPorts(t *testing.T) {
	ports := func(first, last int, reserved ...nodeagent.PortRange) func(f *Facts) {
		return func(f *Facts) {
			f.Plan.Ports, f.Network.Reserved = nodeagent.PortRange{First: first, Last: last}, reserved
			f.Network.LocalFirst, f.Network.LocalLast = 30000, 40000
		}
	}
	apart := nodeagent.PortRange{First: 30000, Last: 30004}
	atBounds(t, map[string]bound{
		"ports before the kernel's":   {ports(29990, 29999), "ports", OK},
		"ports after the kernel's":    {ports(40001, 40009), "ports", OK},
		"one port of the kernel's":    {ports(29990, 30000), "ports", Warning},
		"its last port":               {ports(40000, 40009), "ports", Warning},
		"reserved ports":              {ports(29990, 30004, apart), "ports", OK},
		"ports reserved in part":      {ports(29990, 30005, apart), "ports", Warning},
		"ports reserved in two parts": {ports(29990, 30007, apart, nodeagent.PortRange{First: 30005, Last: 30007}), "ports", OK},
		"the API before the ports":    {ports(7422, 7500), "ports", OK},
		"the API at the last port":    {ports(7400, 7421), "ports", Problem},
		"no ports":                    {ports(0, 0), "ports", OK},
	})
}

// bound is a change of a healthy machine, and what a check says of it.
type bound struct {
	change func(f *Facts)
	check  string
	want   Status
}

func atBounds(t *testing.T, bounds map[string]bound) {
	t.Helper()
	for name, test := range bounds {
		f := healthy()
		test.change(&f)
		found := slices.DeleteFunc(Diagnose(f), func(x Finding) bool { return x.Check != test.check })
		if got := Worst(found); got != test.want || len(found) == 0 {
			t.Errorf("%s: %s, want %s: %+v", name, got, test.want, found)
		}
	}
}
