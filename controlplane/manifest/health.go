package manifest

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/escher-sched/escher/types"
)

// Check is a probe that shows whether a task does its work.
type Check struct {
	Name        string         `json:"name" desc:"distinguishes it from the other checks of the task" is:"name"`
	Exec        *ExecCheck     `json:"exec,omitempty" desc:"a command in the container that exits with 0"`
	HTTP        *HTTPCheck     `json:"http,omitempty" desc:"a GET request to 127.0.0.1 with a good status"`
	TCP         *TCPCheck      `json:"tcp,omitempty" desc:"a port on 127.0.0.1 that accepts a connection"`
	Every       types.Duration `json:"every,omitempty" desc:"time from probe to probe; 10s if it is left out" zero:"is not a duration: give one above zero, or leave it out for 10s"`
	Timeout     types.Duration `json:"timeout,omitempty" desc:"how long a probe may take; 2s if it is left out" zero:"is not a duration: give one above zero, or leave it out for 2s"`
	StartPeriod types.Duration `json:"startPeriod,omitempty" desc:"how long failures do not count after the start, before the first success"`
	Failures    int            `json:"failures,omitempty" desc:"how many failures in a row make the task unhealthy; 3 if it is left out" zero:"is not enough: give at least 1, or leave it out for 3"`
	Successes   int            `json:"successes,omitempty" desc:"how many successes in a row make it healthy; 1 if it is left out" zero:"is not enough: give at least 1, or leave it out for 1"`
	Then        types.Then     `json:"then,omitempty" desc:"the reaction to an unhealthy task: report, if it is left out, shows it; restart also ends the process, and runs it again as restart says"`
}

// ExecCheck is a command in the container.
type ExecCheck struct {
	Command []string `json:"command" desc:"the program and its arguments"`
}

// HTTPCheck is a request.
type HTTPCheck struct {
	Port   PortRef `json:"port" desc:"the name of a port of the task, or a number"`
	Path   string  `json:"path,omitempty" desc:"the path of the request; / if it is left out" is:"absolute"`
	Status int     `json:"status,omitempty" desc:"the good status; 200 to 399 if it is left out" zero:"is not a status: give one, or leave it out for 200 to 399"`
}

// TCPCheck is a connection.
type TCPCheck struct {
	Port PortRef `json:"port" desc:"the name of a port of the task, or a number"`
}

// Warn is a signal ahead of the end. In files it may be a text, too: USR1@120s.
type Warn struct {
	Signal string         `json:"signal" desc:"the signal, such as USR1"`
	Before types.Duration `json:"before" desc:"how long before the end, or the stop signal" zero:"is not a duration: give how long before"`
}

// PortRef is the name of a port of the task, or any port number.
type PortRef string

// MarshalJSON encodes a number as a number.
func (p PortRef) MarshalJSON() ([]byte, error) {
	if n, err := strconv.Atoi(string(p)); err == nil && strconv.Itoa(n) == string(p) {
		return []byte(p), nil
	}
	return json.Marshal(string(p))
}

// UnmarshalJSON decodes text or a whole number.
func (p *PortRef) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) == nil {
		*p = PortRef(s)
		return nil
	}
	var n int
	if err := json.Unmarshal(text, &n); err != nil {
		return types.Errorf(types.Invalid, "%s is not a port: name one of the task's, or give a number", text)
	}
	*p = PortRef(strconv.Itoa(n))
	return nil
}

func (c *Check) check() types.Check {
	out := types.Check{
		Name: c.Name, Every: time.Duration(c.Every), Timeout: time.Duration(c.Timeout), StartPeriod: time.Duration(c.StartPeriod),
		Failures: c.Failures, Successes: c.Successes, Then: c.Then,
	}
	if c.Exec != nil {
		out.Exec = c.Exec.Command
	}
	if h := c.HTTP; h != nil {
		out.HTTP = &types.HTTPCheck{Port: string(h.Port), Path: h.Path, Status: h.Status}
	}
	if c.TCP != nil {
		out.TCP = &types.TCPCheck{Port: string(c.TCP.Port)}
	}
	return out
}

func fromCheck(c *types.Check) Check {
	out := Check{
		Name: c.Name, Every: types.Duration(c.Every), Timeout: types.Duration(c.Timeout), StartPeriod: types.Duration(c.StartPeriod),
		Failures: c.Failures, Successes: c.Successes, Then: c.Then,
	}
	if len(c.Exec) > 0 {
		out.Exec = &ExecCheck{Command: c.Exec}
	}
	if h := c.HTTP; h != nil {
		out.HTTP = &HTTPCheck{Port: PortRef(h.Port), Path: h.Path, Status: h.Status}
	}
	if c.TCP != nil {
		out.TCP = &TCPCheck{Port: PortRef(c.TCP.Port)}
	}
	return out
}

// health adds checks, warning and init to a spec.
func (s *Spec) health(out *types.Spec) {
	for i := range s.Checks {
		out.Checks = append(out.Checks, s.Checks[i].check())
	}
	if w := s.Warn; w != nil {
		out.Warn = &types.Warn{Signal: w.Signal, Before: time.Duration(w.Before)}
		if name, err := types.ParseSignal(w.Signal); err == nil {
			out.Warn.Signal = name // otherwise Validate reports it
		}
	}
	out.Init, out.NoHealthcheck = s.Init, s.NoHealthcheck
}

// fromHealth is the inverse of health.
func (s *Spec) fromHealth(from *types.Spec) {
	for i := range from.Checks {
		s.Checks = append(s.Checks, fromCheck(&from.Checks[i]))
	}
	if w := from.Warn; w != nil {
		s.Warn = &Warn{Signal: w.Signal, Before: types.Duration(w.Before)}
	}
	s.Init, s.NoHealthcheck = from.Init, from.NoHealthcheck
}
