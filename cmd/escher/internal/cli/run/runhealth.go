package run

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// healthFlags say how to check the health of a task, and how to warn it before it ends.
type healthFlags struct {
	command, http, tcp             string
	interval, timeout, startPeriod time.Duration
	retries                        int
	then                           string
	signal                         string
	init, none                     bool
}

func (h *healthFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&h.command, "health-cmd", "", "shell command that exits with 0 in the container while the task is healthy; or a program, such as '[\"/bin/check\", \"-q\"]'")
	flags.StringVar(&h.http, "health-http", "", "PORT/PATH: healthy if this port, by name or number, answers a request with 200 to 399")
	flags.StringVar(&h.tcp, "health-tcp", "", "PORT: healthy if this port, by name or number, accepts a connection")
	flags.DurationVar(&h.interval, "health-interval", 0, "time from one probe to the next")
	flags.DurationVar(&h.timeout, "health-timeout", 0, "time limit of a probe")
	flags.DurationVar(&h.startPeriod, "health-start-period", 0, "time after the start in which failures do not count, until the first success")
	flags.IntVar(&h.retries, "health-retries", 0, "number of failed probes in a row that make it unhealthy")
	flags.StringVar(&h.then, "health-then", "", "report: show that it is unhealthy, the default; restart: also end its process, which --restart may run again")
	flags.BoolVar(&h.none, "no-healthcheck", false, "ignore the HEALTHCHECK of the image, which counts if no check is given")
	flags.StringVar(&h.signal, "signal", "", "SIGNAL@TIME: send this signal this long before it is asked to end, such as USR1@120s")
	flags.BoolVar(&h.init, "init", false, "run it below a small init, which passes on signals and reaps orphaned processes")
	for name, preset := range map[string]string{"interval": "10s", "timeout": "2s", "retries": "3"} {
		cmdutil.Preset(flags, "health-"+name, preset, "give more, or leave it out for the default")
	}
}

// look adds the flags to a spec.
func (h *healthFlags) look(out *types.Spec) error {
	var errs []error
	for _, make := range []func() (*types.Check, error){h.execCheck, h.httpCheck, h.tcpCheck} {
		c, err := make()
		errs = append(errs, err)
		if c == nil {
			continue
		}
		c.Every, c.Timeout, c.StartPeriod, c.Failures, c.Then = h.interval, h.timeout, h.startPeriod, h.retries, types.Then(h.then)
		out.Checks = append(out.Checks, *c)
	}
	if len(out.Checks) == 0 && h.detailed() {
		errs = append(errs, types.Errorf(types.Invalid, "health: is described, and there is no check: give --health-cmd, --health-http or --health-tcp too"))
	}
	warn, err := parseWarn(h.signal)
	if h.none && len(out.Checks) > 0 {
		errs = append(errs, types.Errorf(types.Invalid, "no-healthcheck: a check is given too, which replaces that of the image: drop one of them"))
	}
	out.Warn, out.Init, out.NoHealthcheck = warn, h.init, h.none
	return errors.Join(append(errs, err)...)
}

// detailed reports whether a detail of a check is given.
func (h *healthFlags) detailed() bool {
	return h.interval != 0 || h.timeout != 0 || h.startPeriod != 0 || h.retries != 0 || h.then != ""
}

// execCheck is the check of --health-cmd, nil if none.
func (h *healthFlags) execCheck() (*types.Check, error) {
	if h.command == "" {
		return nil, nil
	}
	c := &types.Check{Name: "cmd", Exec: []string{"/bin/sh", "-c", h.command}}
	if strings.HasPrefix(strings.TrimSpace(h.command), "[") && json.Unmarshal([]byte(h.command), &c.Exec) != nil {
		return nil, types.Errorf(types.Invalid, "health-cmd: %q is no list of texts: write '[\"/bin/check\", \"-q\"]', or a command for the shell", h.command)
	}
	if len(c.Exec) == 0 {
		return nil, types.Errorf(types.Invalid, "health-cmd: %q names no program: write '[\"/bin/check\", \"-q\"]', or a command for the shell", h.command)
	}
	return c, nil
}

// httpCheck is the check of --health-http, nil if none.
func (h *healthFlags) httpCheck() (*types.Check, error) {
	if h.http == "" {
		return nil, nil
	}
	port, path, found := strings.Cut(h.http, "/")
	if port == "" {
		return nil, types.Errorf(types.Invalid, "health-http: %q has no port: write PORT/PATH, such as http/healthz or 8080/", h.http)
	}
	c := &types.Check{Name: "http", HTTP: &types.HTTPCheck{Port: port}}
	if found {
		c.HTTP.Path = "/" + path
	}
	return c, nil
}

// tcpCheck is the check of --health-tcp, nil if none.
func (h *healthFlags) tcpCheck() (*types.Check, error) {
	if h.tcp == "" {
		return nil, nil
	}
	return &types.Check{Name: "tcp", TCP: &types.TCPCheck{Port: h.tcp}}, nil
}

// parseWarn reads SIGNAL@TIME, nil if text is empty.
func parseWarn(text string) (*types.Warn, error) {
	if text == "" {
		return nil, nil
	}
	warn, err := manifest.ParseWarn(text)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "signal: %w", err)
	}
	return warn, nil
}
