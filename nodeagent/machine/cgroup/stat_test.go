package cgroup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// statFixture reads below testdata/stat.
func statFixture(version string) *cgroup.Reader {
	return &cgroup.Reader{Root: filepath.Join("testdata/stat", version), Sys: "testdata/stat/sys", Proc: "testdata/stat/proc"}
}

func TestRead(t *testing.T) {
	web := cgroup.Stat{
		CPU:    &cgroup.CPU{Used: 12500 * time.Millisecond, Throttled: 2500 * time.Millisecond},
		Memory: &cgroup.Memory{WorkingSet: 80 << 20, RSS: 70 << 20, Peak: 150 << 20, Limit: 256 << 20, OOMKills: 2},
		// The traffic of dm and loop is that of the disks below them.
		IO:        &cgroup.IO{ReadBytes: 4196, WriteBytes: 1<<20 + 200, Reads: new(int64(3)), Writes: new(int64(19))},
		Processes: new(int64(7)),
	}
	pressed := web
	pressed.Pressure = cgroup.Pressure{
		CPU:    &cgroup.Stall{Some10: 1.5, Full10: 0.25, Some: 2500 * time.Millisecond, Full: 500 * time.Millisecond},
		Memory: &cgroup.Stall{},
		IO:     &cgroup.Stall{Some10: 12.34, Full10: 10, Some: time.Second, Full: 900 * time.Millisecond},
	}
	for name, test := range map[string]struct {
		version, path string
		want          cgroup.Stat
	}{
		"v1": {"v1", "/escher/web-1", web},
		"v2": {"v2", "/escher/web-1", pressed},
		// An unknown value is nil, and not 0.
		"v1 without controllers, gone while it was read": {"v1", "/escher/half-1", cgroup.Stat{Processes: new(int64(2))}},
		// Linux 6.10 counts nothing by device until a limit is set.
		"v1 without counts by device": {"v1", "/escher/young-1", cgroup.Stat{
			IO: &cgroup.IO{ReadBytes: 4096 + 512, WriteBytes: 1 << 20}, Processes: new(int64(3)),
		}},
		"v2 without controllers": {"v2", "/escher/bare-1", cgroup.Stat{CPU: &cgroup.CPU{Used: time.Millisecond}, Processes: new(int64(1))}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := statFixture(test.version).Read(test.path)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
		})
	}
}

func TestReadNothing(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		if got, err := statFixture(version).Read("/escher/none-1"); !types.Is(err, types.NotFound) {
			t.Errorf("%s: %+v, %v; want NotFound", version, got, err)
		}
		if got, err := statFixture(version).Read("/"); !types.Is(err, types.Invalid) {
			t.Errorf("%s: %+v, %v; want that the whole machine is no container", version, got, err)
		}
	}
}

// TestReadGarbled reads files that no kernel writes, and some with additional content.
func TestReadGarbled(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("cgroup.controllers", "")
	write("a/cpu.stat", "usage_usec many\n\nthrottled_usec\n")
	write("a/io.stat", strings.Repeat("8:0 rbytes=1 wbytes=x\n", 1000))
	write("a/memory.current", "-4")
	write("a/cpu.pressure", "some\nfull avg10=x total=-1\n")
	write("a/io.pressure", "nothing of the kind\n")
	got, err := (&cgroup.Reader{Root: root, Sys: root}).Read("/a")
	want := cgroup.Stat{CPU: &cgroup.CPU{}, IO: &cgroup.IO{ReadBytes: 1000, Reads: new(int64(0)), Writes: new(int64(0))}, Pressure: cgroup.Pressure{CPU: &cgroup.Stall{}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	write("b/cpu.stat/is", "a directory")
	if _, err := (&cgroup.Reader{Root: root}).Read("/b"); !types.Is(err, types.Unavailable) {
		t.Errorf("%v, want that it cannot be read", err)
	}
}
