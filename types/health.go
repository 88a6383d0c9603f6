package types

import (
	"strconv"
	"time"
)

// Check is how the agent of its node finds out whether a process does its work. One of
// Exec, HTTP and TCP is set.
type Check struct {
	// Name tells it from others of the task, in reasons.
	Name string
	// Exec is a command that is run in the container: its exit code 0 is good.
	Exec []string
	// HTTP is a request that is answered well.
	HTTP *HTTPCheck
	// TCP is a port that takes a connection.
	TCP *TCPCheck
	// Every is how long after the beginning of a probe the next one begins; 0 is 10 s.
	Every time.Duration
	// Timeout is how long a probe may take; 0 is 2 s.
	Timeout time.Duration
	// StartPeriod is how long after its start a process may fail the check: until then
	// only a success counts, after which failures do.
	StartPeriod time.Duration
	// Failures is how many probes have to fail in a row for the check to fail; 0 is 3.
	Failures int
	// Successes is how many have to succeed in a row for it to hold; 0 is 1.
	Successes int
	// Then is what becomes of a process that fails it.
	Then Then
}

func (c *Check) fields(w *wire) {
	text(w, 2, &c.Name)
	texts(w, 3, &c.Exec)
	optional(w, 4, &c.HTTP, (*HTTPCheck).fields)
	optional(w, 5, &c.TCP, (*TCPCheck).fields)
	integer(w, 6, &c.Every)
	integer(w, 7, &c.Timeout)
	integer(w, 8, &c.StartPeriod)
	integer(w, 9, &c.Failures)
	integer(w, 10, &c.Successes)
	text(w, 11, &c.Then)
}

// HTTPCheck is a GET request to 127.0.0.1 on the node.
type HTTPCheck struct {
	// Port is the name of a port of the task, or a number.
	Port string
	// Path begins with "/"; empty is "/".
	Path string
	// Status is the one that is good; 0 is each from 200 to 399. Nothing is followed.
	Status int
}

func (c *HTTPCheck) fields(w *wire) {
	text(w, 2, &c.Port)
	text(w, 3, &c.Path)
	integer(w, 4, &c.Status)
}

// TCPCheck is a connection to 127.0.0.1 on the node.
type TCPCheck struct {
	// Port is the name of a port of the task, or a number.
	Port string
}

func (c *TCPCheck) fields(w *wire) { text(w, 2, &c.Port) }

// Then is what becomes of a process that fails a check.
type Then string

// What becomes of it: that it does is told, or it is ended too, and run again as
// Spec.Restart says.
const (
	ThenReport  Then = "report"
	ThenRestart Then = "restart"
)

// The values that hold where a check says nothing.
const (
	DefaultCheckEvery     = 10 * time.Second
	DefaultCheckTimeout   = 2 * time.Second
	DefaultCheckFailures  = 3
	DefaultCheckSuccesses = 1
)

// WithDefaults returns the check with what was left out.
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

// PortNumbers returns the numbers of the ports of the spec by name. Those without a
// number of their own get those of given, in order, as far as there are.
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

// fixedPort reads the number of a port; 0 if text is none.
func fixedPort(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxPort {
		return 0
	}
	return n
}

// CheckPort returns the number of the port that a check names, of the ports by name
// that its task has. Invalid: there is none.
func CheckPort(port string, ports map[string]int) (int, error) {
	if n := ports[port]; n != 0 {
		return n, nil
	}
	if n := fixedPort(port); n != 0 {
		return n, nil
	}
	return 0, Errorf(Invalid, "port %s: the task has none of that name, and it is no number: name one of its ports", shorten(port))
}

// Health is what the checks of a process say of it.
type Health string

// The healths. A task without checks has none.
const (
	// HealthStarting: it has not been found healthy yet, and may still be.
	HealthStarting Health = "starting"
	// Healthy: every check holds.
	Healthy Health = "healthy"
	// Unhealthy: a check fails.
	Unhealthy Health = "unhealthy"
)

// Fit reports whether nothing speaks against what runs: all its checks hold, if it has
// any.
func (h Health) Fit() bool { return h == Healthy || h == "" }

// Warn is a signal that a process gets some time before it is asked to end.
type Warn struct {
	// Signal is its name, such as SIGUSR1.
	Signal string
	// Before is how long before its end, or before the stop signal.
	Before time.Duration
}

func (x *Warn) fields(w *wire) {
	text(w, 2, &x.Signal)
	integer(w, 3, &x.Before)
}
