package usage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

func TestMachine(t *testing.T) {
	for name, test := range map[string]struct {
		proc, sys string
		want      cgroup.Stat
	}{
		"all": {"testdata/proc", "testdata/sys", cgroup.Stat{
			// user, nice, system, irq, softirq, steal, in hundredths of a second.
			CPU:    &cgroup.CPU{Used: 15600 * time.Millisecond},
			Memory: &cgroup.Memory{WorkingSet: 3000000 << 10, RSS: 2500000 << 10, Limit: 8000000 << 10},
			// The disk alone: neither its partition nor the devices that use it.
			IO: &cgroup.IO{ReadBytes: 2000 * 512, WriteBytes: 4000 * 512, Reads: new(int64(100)), Writes: new(int64(200))},
			Pressure: cgroup.Pressure{
				CPU:    &cgroup.Stall{Some10: 1.5, Some: 2500 * time.Millisecond},
				Memory: &cgroup.Stall{},
				IO:     &cgroup.Stall{Some10: 12.34, Full10: 10, Some: time.Second, Full: 900 * time.Millisecond},
			},
		}},
		"an old kernel without pressure": {"testdata/bare/proc", "testdata/bare/sys", cgroup.Stat{
			CPU: &cgroup.CPU{Used: 15600 * time.Millisecond}, IO: &cgroup.IO{Reads: new(int64(0)), Writes: new(int64(0))},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := newMachine(test.proc, test.sys)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // The second time, the disks are cached.
				got, err := m.read()
				if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
					t.Errorf("%v, -want +got:\n%s", err, diff)
				}
			}
		})
	}
	if _, err := newMachine("testdata/none", "testdata/sys"); !types.Is(err, types.Precondition) {
		t.Errorf("without /proc: %v", err)
	}
	m, err := newMachine("testdata/sys", "testdata/sys")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.read(); !types.Is(err, types.Unavailable) || got != (cgroup.Stat{}) {
		t.Errorf("%+v, %v; want that nothing can be read", got, err)
	}
}
