package cgroup_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// with returns a copy of files with more of them.
func with(files, more map[string]string) map[string]string {
	all := maps.Clone(files)
	maps.Copy(all, more)
	return all
}

func TestLook(t *testing.T) {
	apart := map[string]string{
		"cpu/cgroup.procs": "1\n", "memory/cgroup.procs": "1\n", "pids/cgroup.procs": "1\n", "unified/cgroup.procs": "1\n", "unified/cgroup.controllers": "",
		"memory/memory.memsw.limit_in_bytes": "0\n", "run/none": "",
	}
	whole := map[string]string{"cgroup.controllers": "cpuset cpu io memory pids\n", "cgroup.subtree_control": "\n", "cgroup.procs": "1\n2\n"}
	systemd := map[string]string{"run/systemd/system/x": ""}
	nested := with(whole, map[string]string{"cgroup.type": "domain\n"})
	for _, test := range []struct {
		name   string
		files  map[string]string
		driver cgroup.Driver
		swap   bool
		says   string // the result of Check; "" means none
	}{
		{"v1", apart, cgroup.Cgroupfs, true, ""},
		{"v1 with systemd", with(apart, systemd), cgroup.Cgroupfs, true, ""},
		{"v1, joint, no swap", map[string]string{"cpu,cpuacct/cgroup.procs": "", "memory/cgroup.procs": "", "pids/cgroup.procs": ""}, cgroup.Cgroupfs, false, ""},
		{"v1 without memory", map[string]string{"cpu,cpuacct/cgroup.procs": "", "pids/cgroup.procs": ""}, cgroup.Cgroupfs, false, "no hierarchy of memory is mounted"},
		{"v2", whole, cgroup.Cgroupfs, true, ""},
		{"v2 with systemd", with(whole, systemd), cgroup.Systemd, true, ""},
		{"v2 without memory", with(whole, map[string]string{"cgroup.controllers": "cpu io pids\n"}), cgroup.Cgroupfs, true, "the controllers memory are not in"},
		{"v2, delegated, processes in it", nested, cgroup.Cgroupfs, true, "cpu, memory, pids is not in "},
		{"v2, delegated, empty", with(nested, map[string]string{"cgroup.procs": ""}), cgroup.Cgroupfs, true, ""},
		{"v2, delegated, handed down", with(nested, map[string]string{"cgroup.subtree_control": "cpu memory pids\n"}), cgroup.Cgroupfs, true, ""},
		{"nothing", map[string]string{"x": ""}, cgroup.Cgroupfs, false, "no control groups are mounted at"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fixture(t, test.files)
			f := cgroup.Look(root, root+"/run")
			if f.Driver() != test.driver || f.Swap != test.swap {
				t.Errorf("%+v: driver %s, want %s; swap can be limited: want %t", f, f.Driver(), test.driver, test.swap)
			}
			err := f.Check()
			if test.says == "" && err != nil || test.says != "" && (!types.Is(err, types.Precondition) || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("check: %v, want it to say %q", err, test.says)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	plain, booted := cgroup.Facts{Unified: true}, cgroup.Facts{Unified: true, Systemd: true}
	for _, test := range []struct {
		facts  cgroup.Facts
		wanted cgroup.Driver
		want   cgroup.Driver
		class  types.Class
	}{
		{plain, "", cgroup.Cgroupfs, 0},
		{booted, "", cgroup.Systemd, 0},
		{booted, cgroup.Cgroupfs, cgroup.Cgroupfs, 0},
		{booted, cgroup.Systemd, cgroup.Systemd, 0},
		{plain, cgroup.Systemd, "", types.Precondition},
		{plain, "docker", "", types.Invalid},
	} {
		got, err := test.facts.Choose(test.wanted)
		if got != test.want || test.class != 0 && !types.Is(err, test.class) || test.class == 0 && err != nil {
			t.Errorf("%+v, %q wanted: %q, %v", test.facts, test.wanted, got, err)
		}
	}
}

// TestHere checks the machine of the test, which runs containers.
func TestHere(t *testing.T) {
	if err := cgroup.Look(cgroup.DefaultRoot, cgroup.DefaultRun).Check(); err != nil {
		t.Error(err)
	}
}
