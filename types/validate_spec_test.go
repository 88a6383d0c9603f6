package types

import (
	"slices"
	"testing"
	"time"
)

// goodSpec returns a spec that uses every field and is valid.
func goodSpec() Spec {
	return Spec{
		Image: "docker.io/library/busybox:1.36", Command: []string{"sh", "-c", ""}, Env: []string{"A=", "B=x=y"}, Dir: "/tmp", User: "1:2", Grace: time.Second,
		Restart: &Restart{When: RestartAlways, Limit: 3, Delay: time.Second, MaxDelay: time.Minute}, StopSignal: "SIGUSR1",
		Mounts: []Mount{{Source: "/data", Target: "/mnt/data", ReadOnly: true}, {Target: "/scratch"}, {Target: "/dev/shm"}},
		Ports:  []TaskPort{{Name: "http"}, {Name: "admin.v-1", Number: 8080}, {Name: "rpc"}},
	}
}

func TestValidateRestartMountsAndPorts(t *testing.T) {
	good := goodSpec()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*Spec)
		says  []string
	}{
		"restart":        {func(s *Spec) { s.Restart = &Restart{When: "sometimes"} }, []string{`restart.when: "sometimes" is unknown`, "on-failure or always", "never"}},
		"limit":          {func(s *Spec) { s.Restart = &Restart{When: RestartAlways, Limit: -1} }, []string{"restart.limit: -1 is negative"}},
		"delays":         {func(s *Spec) { s.Restart = &Restart{When: RestartAlways, Delay: -1, MaxDelay: -2} }, []string{"restart.delay: -1ns", "restart.maxDelay: -2ns"}},
		"order":          {func(s *Spec) { s.Restart = &Restart{When: RestartAlways, Delay: 2, MaxDelay: 1} }, []string{"restart.delay: 2ns is longer than", "swap them"}},
		"signal":         {func(s *Spec) { s.StopSignal = "INT" }, []string{`stopSignal: "INT" is not a signal`, "such as SIGINT"}},
		"unknown signal": {func(s *Spec) { s.StopSignal = "SIGNAL" }, []string{"stopSignal: "}},
		"source":         {func(s *Spec) { s.Mounts = []Mount{{Source: "data", Target: "/a"}} }, []string{`mounts[0].source: "data" is not absolute`}},
		"no target":      {func(s *Spec) { s.Mounts = []Mount{{Source: "/a"}} }, []string{"mounts[0].target: is empty"}},
		"target":         {func(s *Spec) { s.Mounts = []Mount{{Target: "/a/../b/"}} }, []string{"mounts[0].target: ", "write /b"}},
		"root":           {func(s *Spec) { s.Mounts = []Mount{{Target: "/"}} }, []string{`mounts[0].target: "/" is part of every container`}},
		"proc":           {func(s *Spec) { s.Mounts = []Mount{{Target: "/proc/1"}} }, []string{"part of every container"}},
		"socket":         {func(s *Spec) { s.Mounts = []Mount{{Target: "/run/escher/x"}} }, []string{"would hide the task's socket in /run/escher"}},
		"above":          {func(s *Spec) { s.Mounts = []Mount{{Target: "/run"}} }, []string{"would hide the task's socket"}},
		"twice":          {func(s *Spec) { s.Mounts = []Mount{{Target: "/a"}, {Source: "/x", Target: "/a"}} }, []string{`mounts[1].target: "/a" is mounted twice`}},
		"mounts":         {func(s *Spec) { s.Mounts = make([]Mount, MaxMounts+1) }, []string{"mounts: has 101"}},
		"ports":          {func(s *Spec) { s.Ports = make([]TaskPort, MaxPorts+1) }, []string{"ports: has 101"}},
		"port name":      {func(s *Spec) { s.Ports[0].Name = "a b" }, []string{"ports[0].name: "}},
		"port number":    {func(s *Spec) { s.Ports[0].Number = 65536 }, []string{"ports[0].number: 65536 is not a port", "leave it out"}},
		"same number":    {func(s *Spec) { s.Ports[0].Number = 8080 }, []string{"ports[1].number: 8080 is given twice"}},
		"same name":      {func(s *Spec) { s.Ports[0].Name = "ADMIN_V.1" }, []string{"ports[1].name: ", "as ESCHER_PORT_ADMIN_V_1"}},
	} {
		bad := goodSpec()
		c.spoil(&bad)
		t.Run(name, func(t *testing.T) { refusal(t, bad.Validate(), c.says...) })
	}
}

func TestImplied(t *testing.T) {
	spec := goodSpec()
	want := Requests{{"port", 2000}, {"port/8080", 1000}}
	if got := spec.Implied(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := (&Spec{}).Implied(); got != nil {
		t.Errorf("no ports need %v", got)
	}
	task := Task{Requests: Requests{{"cpu", 100}, {"port@train", 1000}}}
	refusal(t, task.ValidateImplied(&spec), "requests.port: 1 is requested, and the spec needs 2", "requests.port/8080: 0 is requested")
	task.Requests = spec.WithImplied(task.Requests)
	if want := (Requests{{"cpu", 100}, {"port", 1000}, {"port/8080", 1000}, {"port@train", 1000}}); !slices.Equal(task.Requests, want) {
		t.Errorf("got %v", task.Requests)
	}
	if err := task.ValidateImplied(&spec); err != nil {
		t.Error(err)
	}
	if err := task.Validate(); err != nil {
		t.Error(err)
	}
}

func TestPortsAreRequestedAsAWhole(t *testing.T) {
	for _, c := range []struct {
		name   string
		amount Quantity
		says   string
	}{
		{"port", 500, "request whole ones"},
		{"port@train", 1500, "request whole ones"},
		{"port/80", 2000, "request 1"},
		{"port/0", 1000, "write it like port/8080"},
		{"port/65536", 1000, "write it like port/8080"},
		{"port/http", 1000, "write it like port/8080"},
	} {
		refusal(t, Requests{{c.name, c.amount}}.Validate("requests"), "requests."+c.name, c.says)
	}
}

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]string{"int": "SIGINT", "TERM": "SIGTERM", "SIGUSR1": "SIGUSR1", "rtmin+3": "SIGRTMIN+3"} {
		if got, err := ParseSignal(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	_, err := ParseSignal("9")
	refusal(t, err, "not a signal")
}

func TestDeadlineIsChecked(t *testing.T) {
	bad := Task{Deadline: -1}
	refusal(t, bad.Validate(), "deadline: -1 is negative")
}
