package types

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/types/wire"
)

// A Check lets the agent find out whether a process does its work. Exactly one of Exec, HTTP and
// TCP is set.
type Check struct {
	// Name distinguishes it from other checks of the task, in reasons.
	Name string
	// Exec is a command to run in the container: exit code 0 is a success.
	Exec []string
	// HTTP is a request; a good status is a success.
	HTTP *HTTPCheck
	// TCP is a port; an accepted connection is a success.
	TCP *TCPCheck
	// Every is the time between the beginnings of two probes; 0 means 10 s.
	Every time.Duration
	// Timeout is the longest duration of a probe; 0 means 2 s.
	Timeout time.Duration
	// StartPeriod is the time after the start of a process in which failures do not count. A
	// success ends it early.
	StartPeriod time.Duration
	// Failures is the number of consecutive failures that make the check fail; 0 means 3.
	Failures int
	// Successes is the number of consecutive successes that make the check pass; 0 means 1.
	Successes int
	// Then is the reaction to a failed check.
	Then Then
}

func (c *Check) fields(w *wire.Pass) {
	wire.Text(w, 2, &c.Name)
	wire.Texts(w, 3, &c.Exec)
	wire.Optional(w, 4, &c.HTTP, (*HTTPCheck).fields)
	wire.Optional(w, 5, &c.TCP, (*TCPCheck).fields)
	wire.Integer(w, 6, &c.Every)
	wire.Integer(w, 7, &c.Timeout)
	wire.Integer(w, 8, &c.StartPeriod)
	wire.Integer(w, 9, &c.Failures)
	wire.Integer(w, 10, &c.Successes)
	wire.Text(w, 11, &c.Then)
}

// HTTPCheck is a GET request to 127.0.0.1 on the node.
type HTTPCheck struct {
	// Port is the name of a port of the task, or a number.
	Port string
	// Path begins with "/"; empty means "/".
	Path string
	// Status is the good status; 0 means 200 to 399. The agent follows no redirect.
	Status int
}

func (c *HTTPCheck) fields(w *wire.Pass) {
	wire.Text(w, 2, &c.Port)
	wire.Text(w, 3, &c.Path)
	wire.Integer(w, 4, &c.Status)
}

// TCPCheck is a connection to 127.0.0.1 on the node.
type TCPCheck struct {
	// Port is the name of a port of the task, or a number.
	Port string
}

func (c *TCPCheck) fields(w *wire.Pass) { wire.Text(w, 2, &c.Port) }

// Then is the reaction to a failed check.
type Then string

// The reactions. ThenReport reports the failure. ThenRestart also ends the process, which
// Spec.Restart may run again.
const (
	ThenReport  Then = "report"
	ThenRestart Then = "restart"
)

// The defaults of a check.
const (
	DefaultCheckEvery     = 10 * time.Second
	DefaultCheckTimeout   = 2 * time.Second
	DefaultCheckFailures  = 3
	DefaultCheckSuccesses = 1
)

// WithDefaults returns the check with its defaults filled in.
func (c Check) WithDefaults() Check {
	if c.Every == 0 {
		c.Every = DefaultCheckEvery
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultCheckTimeout
	}
	if c.Failures == 0 {
		c.Failures = DefaultCheckFailures
	}
	if c.Successes == 0 {
		c.Successes = DefaultCheckSuccesses
	}
	if c.Then == "" {
		c.Then = ThenReport
	}
	return c
}

// PortNumbers returns the numbers of the spec's ports, by name. Ports without a number get those of
// given, in order, while there are any.
func (s *Spec) PortNumbers(given []int) map[string]int {
	numbers := make(map[string]int, len(s.Ports))
	for _, p := range s.Ports {
		switch {
		case p.Number != 0:
			numbers[p.Name] = p.Number
		case len(given) > 0:
			numbers[p.Name], given = given[0], given[1:]
		}
	}
	return numbers
}

// fixedPort reads a port number; 0 if text is not one.
func fixedPort(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPort {
		return 0
	}
	return n
}

// CheckPort returns the port number that a check names, given the task's ports by name. Invalid:
// there is none.
func CheckPort(port string, ports map[string]int) (int, error) {
	if n := ports[port]; n != 0 {
		return n, nil
	}
	if n := fixedPort(port); n != 0 {
		return n, nil
	}
	remedy := fmt.Sprintf("give a number from 1 to %d", MaxPort)
	if len(ports) > 0 {
		remedy += ", or one of " + PortsText(ports)
	}
	return 0, Errorf(Invalid, "port %q: the task has no port of that name: %s", shorten(port), remedy)
}

// PortsText lists ports by name, each as name=number.
func PortsText(ports map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, ports[name]))
	}
	return strings.Join(parts, ",")
}

// Health is the result of the checks of a process.
type Health string

// The healths. A task without checks has none.
const (
	// HealthStarting: it has not been healthy yet, and may still become so.
	HealthStarting Health = "starting"
	// Healthy: every check passes.
	Healthy Health = "healthy"
	// Unhealthy: a check fails.
	Unhealthy Health = "unhealthy"
)

// Usable reports whether a running process is usable: all its checks, if any, pass.
func (h Health) Usable() bool { return h == Healthy || h == "" }

// Warn is a signal that a process gets some time before its stop signal.
type Warn struct {
	// Signal is the name of the signal, such as SIGUSR1.
	Signal string
	// Before is the time between the warning and the end of the process or its stop signal.
	Before time.Duration
}

func (x *Warn) fields(w *wire.Pass) {
	wire.Text(w, 2, &x.Signal)
	wire.Integer(w, 3, &x.Before)
}
