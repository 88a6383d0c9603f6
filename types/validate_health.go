package types

import (
	"net/url"
	"strings"
)

// validateHealth checks the checks and the warning of a spec.
func (s *Spec) validateHealth() error {
	var errs []error
	names := make(map[string]bool)
	for i := range s.Checks {
		c, at := &s.Checks[i], index("checks", i)
		errs = append(errs, ValidateName(at+".name", c.Name), c.validateProbe(at, s.Ports), c.validateTimes(at))
		if names[c.Name] {
			errs = append(errs, Errorf(Invalid, "%s.name: %q is given twice: choose another", at, shorten(c.Name)))
		}
		names[c.Name] = true
		if c.Then != "" && c.Then != ThenReport && c.Then != ThenRestart {
			errs = append(errs, Errorf(Invalid, "%s.then: %q is unknown: use report or restart", at, shorten(string(c.Then))))
		}
	}
	errs = append(errs, s.Warn.validate())
	return joinInvalid(nonNil(errs))
}

// validateProbe checks the target of a probe.
func (c *Check) validateProbe(at string, ports []TaskPort) error {
	kinds := 0
	var errs []error
	if len(c.Exec) > 0 {
		kinds++
		for i, arg := range c.Exec {
			errs = append(errs, validateText(index(at+".exec.command", i), arg))
		}
		if c.Exec[0] == "" {
			errs = append(errs, Errorf(Invalid, "%s.exec.command[0]: is empty: name the program to run in the container", at))
		}
	}
	if h := c.HTTP; h != nil {
		kinds++
		errs = append(errs, validateCheckPort(at+".http.port", h.Port, ports), validateCheckPath(at+".http.path", h.Path))
		if h.Status != 0 && (h.Status < 200 || h.Status > 599) {
			errs = append(errs, Errorf(Invalid, "%s.http.status: %d is not a status: give one from 200 to 599, or leave it out for 200 to 399", at, h.Status))
		}
	}
	if t := c.TCP; t != nil {
		kinds++
		errs = append(errs, validateCheckPort(at+".tcp.port", t.Port, ports))
	}
	if kinds != 1 {
		errs = append(errs, Errorf(Invalid, "%s: has %d of exec, http and tcp: give one", at, kinds))
	}
	return joinInvalid(nonNil(errs))
}

// validateCheckPort checks that a check names a port of the task, or any port by number.
func validateCheckPort(field, port string, ports []TaskPort) error {
	if port == "" {
		return Errorf(Invalid, "%s: is missing: name one of the task's ports, or give a number", field)
	}
	var names []string
	for _, p := range ports {
		if p.Name == port {
			return nil
		}
		names = append(names, p.Name)
	}
	if fixedPort(port) != 0 {
		return nil
	}
	if len(names) == 0 {
		return Errorf(Invalid, "%s: %q is not a port of the task, which has none, and not a number from 1 to %d: add it to ports", field, shorten(port), MaxPort)
	}
	return Errorf(Invalid, "%s: %q is neither a port of the task nor a number from 1 to %d: use %s", field, shorten(port), MaxPort, strings.Join(names, " or "))
}

func validateCheckPath(field, path string) error {
	if len(path) > MaxPath {
		return Errorf(Invalid, "%s: %q has %d bytes: at most %d are allowed, shorten it", field, shorten(path), len(path), MaxPath)
	}
	if err := validateText(field, path); err != nil {
		return err
	}
	if path != "" && !strings.HasPrefix(path, "/") {
		return Errorf(Invalid, "%s: %q does not begin with '/': write /%s", field, shorten(path), shorten(path))
	}
	if u, err := url.ParseRequestURI(path); path != "" && (err != nil || u.Host != "") || strings.ContainsAny(path, " \t\r\n") {
		return Errorf(Invalid, "%s: %q is not the path of a request: write it such as /healthz?full=1", field, shorten(path))
	}
	return nil
}

// validateTimes checks the timing and the counts of a check.
func (c *Check) validateTimes(at string) error {
	errs := []error{validateDelay(at+".startPeriod", c.StartPeriod), validateDelay(at+".timeout", c.Timeout)}
	if c.Every != 0 && c.Every < MinCheckEvery {
		errs = append(errs, Errorf(Invalid, "%s.every: %s is too often: give %s or more, or leave it out for %s", at, c.Every, MinCheckEvery, DefaultCheckEvery))
	}
	if c.Every > MaxDuration {
		errs = append(errs, validateDelay(at+".every", c.Every))
	}
	for field, n := range map[string]int{"failures": c.Failures, "successes": c.Successes} {
		if n < 0 || n > MaxCheckCount {
			errs = append(errs, Errorf(Invalid, "%s.%s: %d is out of range: give the number in a row, 1 to %d", at, field, n, MaxCheckCount))
		}
	}
	return joinInvalid(nonNil(errs))
}

func (x *Warn) validate() error {
	if x == nil {
		return nil
	}
	var errs []error
	switch {
	case x.Signal == "":
		errs = append(errs, Errorf(Invalid, "warn.signal: is missing: name the signal, such as SIGUSR1"))
	case x.Signal == "SIGKILL" || x.Signal == "SIGSTOP":
		errs = append(errs, Errorf(Invalid, "warn.signal: no program can handle %s: use one such as SIGUSR1", x.Signal))
	default:
		errs = append(errs, validateSignal("warn.signal", x.Signal))
	}
	if x.Before <= 0 {
		errs = append(errs, Errorf(Invalid, "warn.before: %s is not positive: give the time before its end, such as 120s", x.Before))
	}
	return joinInvalid(nonNil(errs))
}

// ValidateWarning checks that the task runs long enough for its warning.
func (t *Task) ValidateWarning(s *Spec) error {
	if s.Warn == nil || t.MaxRun == 0 || s.Warn.Before < t.MaxRun {
		return nil
	}
	return Errorf(Invalid, "warn.before: %s is not shorter than the run time limit of %s: give a shorter one, or raise the limit", s.Warn.Before, t.MaxRun)
}
