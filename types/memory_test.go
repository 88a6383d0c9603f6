package types

import (
	"strings"
	"testing"
)

func TestValidateMemoryAndUlimits(t *testing.T) {
	good := Spec{
		Image: "a", Shm: 1 << 30, Tmpfs: []Tmpfs{{Target: "/cache"}, {Target: "/tmp/x", Size: 1}}, Mounts: []Mount{{Target: "/cache/in"}},
		Ulimits: []Ulimit{{"memlock", Unlimited, Unlimited}, {"nofile", 5, 1 << 20}, {"core", 0, Unlimited}},
	}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*Spec)
		says  []string
	}{
		"shm":           {func(s *Spec) { s.Shm = -1 }, []string{"shm: -1 bytes is not a size"}},
		"over a mount":  {func(s *Spec) { s.Tmpfs[1].Target = "/cache/in" }, []string{`tmpfs[1].target: "/cache/in" is mounted twice`}},
		"twice":         {func(s *Spec) { s.Tmpfs[1].Target = "/cache" }, []string{`tmpfs[1].target: "/cache" is mounted twice`}},
		"/dev/shm":      {func(s *Spec) { s.Tmpfs[0].Target = "/dev/shm" }, []string{"tmpfs[0].target: /dev/shm is the shared memory: set its size with shm"}},
		"/run":          {func(s *Spec) { s.Tmpfs[0].Target = "/run" }, []string{"/run is in memory in every container"}},
		"socket":        {func(s *Spec) { s.Tmpfs[0].Target = "/run/escher" }, []string{"would hide the task's socket"}},
		"root":          {func(s *Spec) { s.Tmpfs[0].Target = "/" }, []string{"part of every container"}},
		"relative":      {func(s *Spec) { s.Tmpfs[0].Target = "x" }, []string{"not absolute"}},
		"many":          {func(s *Spec) { s.Tmpfs = make([]Tmpfs, 101) }, []string{"tmpfs: has 101"}},
		"name":          {func(s *Spec) { s.Ulimits[0].Name = "memlocked" }, []string{"ulimits.memlocked: is not a limit of processes: use core, cpu, data", "memlock", "stack"}},
		"soft":          {func(s *Spec) { s.Ulimits[1].Soft = 1 << 21 }, []string{"ulimits.nofile: the soft limit of 2097152:1048576 is above the hard one"}},
		"soft is none":  {func(s *Spec) { s.Ulimits[1].Soft = Unlimited }, []string{"the soft limit of -1:1048576 is above"}},
		"files":         {func(s *Spec) { s.Ulimits[1].Hard = Unlimited }, []string{"no room for so many open files"}},
		"ulimit twice":  {func(s *Spec) { s.Ulimits[2].Name = "nofile" }, []string{"ulimits.nofile: is given twice"}},
		"negative":      {func(s *Spec) { s.Ulimits[0].Soft = -2 }, []string{"ulimits.memlock: -2 is out of range"}},
		"real time":     {func(s *Spec) { s.Ulimits[0].Name = "rtprio" }, []string{"add the capability SYS_NICE"}},
		"many ulimits":  {func(s *Spec) { s.Ulimits = make([]Ulimit, 16) }, []string{"ulimits: has 16"}},
		"no entrypoint": {func(s *Spec) { s.SetCommand([]string{}, nil) }, []string{"entrypoint: is empty"}},
	} {
		bad := good
		bad.Tmpfs, bad.Ulimits = append([]Tmpfs(nil), good.Tmpfs...), append([]Ulimit(nil), good.Ulimits...)
		c.spoil(&bad)
		t.Run(name, func(t *testing.T) { refusal(t, bad.Validate(), c.says...) })
	}
	nice := Spec{Image: "a", CapAdd: []string{"SYS_NICE"}, Ulimits: []Ulimit{{"rtprio", 5, 5}}}
	if err := nice.Validate(); err != nil {
		t.Error(err)
	}
}

// The memory of every alternative counts, and a request without memory has no limit.
func TestMemoryFitsTheTask(t *testing.T) {
	memory := func(q Quantity) Requests { return NewRequests(map[string]Quantity{"memory": q}) }
	spec := &Spec{Shm: 100, Tmpfs: []Tmpfs{{Target: "/a"}, {Target: "/b", Size: 200}}}
	for name, c := range map[string]struct {
		task Task
		says string
	}{
		"no memory":      {Task{}, ""},
		"enough":         {Task{Requests: memory(200)}, ""},
		"shm":            {Task{Requests: memory(99)}, "shm: 100B is larger than the memory of the task, which is 99B: make it smaller, or request more memory"},
		"tmpfs":          {Task{Requests: memory(199)}, "tmpfs[1].size: 200B is larger than the memory of the task, which is 199B"},
		"drawn":          {Task{Requests: Requests{{"memory@r", 199}}}, "tmpfs[1].size"},
		"an alternative": {Task{Requests: memory(150), Alternatives: []Alternative{{Requests: memory(50)}, {Requests: memory(20)}}}, "which is 170B"},
		"all of them":    {Task{Requests: memory(150), Alternatives: []Alternative{{Requests: memory(50)}, {Requests: memory(60)}}}, ""},
	} {
		err := c.task.ValidateMemory(spec)
		if c.says == "" && err != nil || c.says != "" && (!Is(err, Invalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %v, want %s", name, err, c.says)
		}
	}
	if MemoryShare(0) != 64<<20 || MemoryShare(1<<30) != 1<<29 {
		t.Error("a share of memory is wrong")
	}
}
