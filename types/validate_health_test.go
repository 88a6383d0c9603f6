package types

import (
	"testing"
	"time"
)

// healthy returns a spec whose checks and warning use every field and are valid.
func healthy() Spec {
	s := goodSpec()
	s.Checks = []Check{
		{
			Name: "alive", Exec: []string{"/bin/check", ""}, Every: time.Second, Timeout: time.Minute, StartPeriod: time.Hour,
			Failures: MaxCheckCount, Successes: 2, Then: ThenRestart,
		},
		{Name: "web", HTTP: &HTTPCheck{Port: "http", Path: "/healthz?full=1", Status: 204}, Then: ThenReport},
		{Name: "db", TCP: &TCPCheck{Port: "5432"}},
		{Name: "root", HTTP: &HTTPCheck{Port: "8080"}},
	}
	s.Warn = &Warn{Signal: "SIGUSR1", Before: 2 * time.Minute}
	s.Init = true
	return s
}

func TestValidateHealth(t *testing.T) {
	good := healthy()
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*Spec)
		says  []string
	}{
		"nothing":        {func(s *Spec) { s.Checks[0].Exec = nil }, []string{"checks[0]: has 0 of exec, http and tcp: give one"}},
		"two":            {func(s *Spec) { s.Checks[0].TCP = &TCPCheck{Port: "1"} }, []string{"checks[0]: has 2 of exec"}},
		"program":        {func(s *Spec) { s.Checks[0].Exec[0] = "" }, []string{"checks[0].exec.command[0]: is empty"}},
		"argument":       {func(s *Spec) { s.Checks[0].Exec[1] = "\x00" }, []string{"checks[0].exec.command[1]: ", "zero byte"}},
		"name":           {func(s *Spec) { s.Checks[1].Name = "a b" }, []string{"checks[1].name: "}},
		"same name":      {func(s *Spec) { s.Checks[1].Name = "alive" }, []string{`checks[1].name: "alive" is given twice`}},
		"many":           {func(s *Spec) { s.Checks = make([]Check, MaxChecks+1) }, []string{"checks: has 9: at most 8"}},
		"often":          {func(s *Spec) { s.Checks[0].Every = time.Millisecond }, []string{"checks[0].every: 1ms is too often: give 1s or more"}},
		"negative every": {func(s *Spec) { s.Checks[0].Every = -1 }, []string{"checks[0].every: -1ns"}},
		"timeout":        {func(s *Spec) { s.Checks[0].Timeout = -1 }, []string{"checks[0].timeout: -1ns is negative"}},
		"start period":   {func(s *Spec) { s.Checks[0].StartPeriod = -1 }, []string{"checks[0].startPeriod: -1ns is negative"}},
		"failures":       {func(s *Spec) { s.Checks[0].Failures = -1 }, []string{"checks[0].failures: -1 is out of range"}},
		"successes":      {func(s *Spec) { s.Checks[0].Successes = MaxCheckCount + 1 }, []string{"checks[0].successes: 1001 is out of range"}},
		"then":           {func(s *Spec) { s.Checks[0].Then = "kill" }, []string{`checks[0].then: "kill" is unknown: use report or restart`}},
		"port":           {func(s *Spec) { s.Checks[1].HTTP.Port = "htp" }, []string{`checks[1].http.port: "htp" is neither a port of the task`, "use http or admin.v-1 or rpc"}},
		"no port":        {func(s *Spec) { s.Checks[2].TCP.Port = "" }, []string{"checks[2].tcp.port: is missing"}},
		"port number":    {func(s *Spec) { s.Checks[2].TCP.Port = "65536" }, []string{`checks[2].tcp.port: "65536"`, "1 to 65535"}},
		"no ports":       {func(s *Spec) { s.Ports = nil }, []string{`checks[1].http.port: "http"`, "add it to ports"}},
		"path":           {func(s *Spec) { s.Checks[1].HTTP.Path = "healthz" }, []string{`checks[1].http.path: "healthz" does not begin with '/'`, "write /healthz"}},
		"path text":      {func(s *Spec) { s.Checks[1].HTTP.Path = "/a b\r\nHost: x" }, []string{"checks[1].http.path: "}},
		"status":         {func(s *Spec) { s.Checks[1].HTTP.Status = 99 }, []string{"checks[1].http.status: 99 is not a status"}},
		"no signal":      {func(s *Spec) { s.Warn.Signal = "" }, []string{"warn.signal: is missing"}},
		"signal":         {func(s *Spec) { s.Warn.Signal = "USR1" }, []string{`warn.signal: "USR1" is not a signal`}},
		"kill":           {func(s *Spec) { s.Warn.Signal = "SIGKILL" }, []string{"warn.signal: no program can handle SIGKILL"}},
		"before":         {func(s *Spec) { s.Warn.Before = 0 }, []string{"warn.before: 0s is not positive", "such as 120s"}},
		"beside init":    {func(s *Spec) { s.Mounts[0].Target = "/.escher" }, []string{"mounts[0].target: ", "holds the init of a task"}},
	} {
		bad := healthy()
		c.spoil(&bad)
		t.Run(name, func(t *testing.T) { refusal(t, bad.Validate(), c.says...) })
	}
}

func TestCheckPort(t *testing.T) {
	spec := Spec{Ports: []TaskPort{{Name: "http"}, {Name: "admin", Number: 8080}, {Name: "9000"}, {Name: "late"}}}
	ports := spec.PortNumbers([]int{20007, 20011})
	for port, want := range map[string]int{"http": 20007, "admin": 8080, "9000": 20011, "1234": 1234, "late": 0, "none": 0, "0": 0} {
		got, err := CheckPort(port, ports)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%s: %d, %v; want %d", port, got, err, want)
		}
	}
}

func TestSooner(t *testing.T) {
	for _, c := range []struct {
		grace, before time.Duration
		want          bool
	}{
		{0, 0, false}, {0, time.Second, false}, {time.Second, 0, true}, {1, time.Second, true}, {time.Second, time.Second, false}, {time.Minute, time.Second, false},
	} {
		if got := (&Stop{Grace: c.grace}).Sooner(&Stop{Grace: c.before}); got != c.want {
			t.Errorf("%s after %s: %t", c.grace, c.before, got)
		}
	}
}

func TestValidateWarning(t *testing.T) {
	spec := healthy()
	for may, says := range map[time.Duration]string{
		0: "", time.Hour: "", 2 * time.Minute: "warn.before: 2m0s is not shorter than the run time limit of 2m0s", time.Minute: "warn.before: ",
	} {
		err := (&Task{MaxRun: may}).ValidateWarning(&spec)
		if says == "" && err != nil {
			t.Errorf("%s: %v", may, err)
		}
		if says != "" {
			refusal(t, err, says)
		}
	}
	if err := (&Task{MaxRun: time.Second}).ValidateWarning(&Spec{}); err != nil {
		t.Error(err)
	}
}
