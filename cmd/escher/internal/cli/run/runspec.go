package run

import (
	"bufio"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/flagset"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/backoff"
)

// specFlags say what to run, and how.
type specFlags struct {
	env, envFiles []string
	workdir, user string
	// local is the directory to send that workdir names; spec sets it.
	local           string
	mounts, scratch []string
	secrets         []string
	ports           []string
	restart         string
	delay, maxDelay time.Duration
	entrypoint      string
	entrypointGiven func() bool
	binary          string // the path in the image of the binary to run
	stopSignal      string
	grace           time.Duration
	stdin, tty      bool
	isolation       flagset.IsolationFlags
	health          healthFlags
}

func (s *specFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&s.env, "env", "e", nil, "NAME=value, or NAME for its value here; repeat for several")
	flags.StringArrayVar(&s.envFiles, "env-file", nil, "file with such lines; --env overrides it")
	flags.StringVar(&s.entrypoint, "entrypoint", "", "program that runs instead of the image's entry point; its arguments follow the image; \"\" means none: the first argument is the program")
	flags.StringVarP(&s.workdir, "workdir", "w", "", "a directory with your code, such as . or ./src:/app: it is sent, appears at /workdir or that path, and is the working directory; an absolute path alone is a directory of the container")
	flags.BoolVarP(&s.stdin, "interactive", "i", false, "pass the input of escher run to it; once")
	flags.BoolVarP(&s.tty, "tty", "t", false, "give it a terminal")
	flags.StringVarP(&s.user, "user", "u", "", "uid[:gid], or the name of a user in the image")
	flags.StringArrayVarP(&s.mounts, "mount", "v", nil, "SOURCE:TARGET[:ro]: a path of the node, which must allow it, in the container")
	flags.StringArrayVar(&s.scratch, "scratch", nil, "TARGET: an empty directory of the task, deleted with it")
	flags.StringArrayVar(&s.secrets, "secret", nil, "NAME[,target=DIRECTORY]: a secret as files in memory, at /run/secrets/NAME or that directory; NAME:VALUE,env=VARIABLE: one value as a variable; repeat for several")
	flags.StringArrayVarP(&s.ports, "port", "p", nil, "NAME[=NUMBER]: a port of the node, found in ESCHER_PORT_NAME, and the first one in PORT; the node chooses the number unless it is given")
	flags.StringVar(&s.restart, "restart", "never", "never, on-failure[:LIMIT] or always[:LIMIT]: when its process runs again, on the same node")
	flags.DurationVar(&s.delay, "restart-delay", 0, "wait before the first restart, doubled for each that follows")
	flags.DurationVar(&s.maxDelay, "restart-max-delay", 0, "longest wait before a restart")
	flags.StringVar(&s.stopSignal, "stop-signal", "", "signal that asks it to end, such as SIGINT (default: the image's, or SIGTERM)")
	flags.DurationVar(&s.grace, "grace", 0, "time between the stop signal and the kill")
	cmdutil.Preset(flags, "restart-delay", render.Shortly(backoff.First), "give a time above 0s, or leave it out for the default")
	cmdutil.Preset(flags, "restart-max-delay", render.Shortly(backoff.Max), "give a time above 0s, or leave it out for the default")
	cmdutil.Preset(flags, "grace", "10s", "give a time above 0s; escher stop --grace 0s kills at once")
	s.entrypointGiven = func() bool { return flags.Changed("entrypoint") }
	s.isolation.Add(cmd)
	s.health.Add(flags)
}

// spec makes the spec of the flags.
func (s *specFlags) spec(f *cmdutil.Factory, image string, command []string) (*types.Spec, error) {
	out := &types.Spec{Image: image, User: s.user, Grace: s.grace, Stdin: s.stdin, TTY: s.tty}
	out.SetCommand(s.program(), command)
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	note(s.setWorkdir(out))
	env, err := s.environment(f)
	out.Env = env
	note(err)
	for _, text := range s.mounts {
		m, err := parseMount(text)
		out.Mounts = append(out.Mounts, m)
		note(err)
	}
	for _, target := range s.scratch {
		out.Mounts = append(out.Mounts, types.Mount{Target: target})
	}
	for _, text := range s.secrets {
		use, err := parseSecret(text)
		out.Secrets = append(out.Secrets, use)
		note(err)
	}
	for _, text := range s.ports {
		p, err := parsePort(text)
		out.Ports = append(out.Ports, p)
		note(err)
	}
	out.Restart, err = s.parseRestart()
	note(err)
	if s.stopSignal != "" {
		out.StopSignal, err = types.ParseSignal(s.stopSignal)
		note(err)
	}
	note(s.isolation.Isolate(f, out))
	note(s.health.look(out))
	if err := errors.Join(errs...); err != nil {
		return nil, types.Errorf(types.Invalid, "%w", err)
	}
	return out, out.Validate()
}

// program returns the entry point of the flags: nil means the image's, an empty one none.
func (s *specFlags) program() []string {
	switch {
	case s.binary != "":
		return []string{s.binary}
	case !s.entrypointGiven():
		return nil
	case s.entrypoint == "":
		return []string{}
	}
	return []string{s.entrypoint}
}

// environment reads the files, then the flags.
func (s *specFlags) environment(f *cmdutil.Factory) ([]string, error) {
	var env []string
	for _, name := range s.envFiles {
		lines, err := readEnvFile(f, name)
		if err != nil {
			return nil, err
		}
		env = append(env, lines...)
	}
	given, err := Variables(f, "env", s.env)
	if err != nil {
		return nil, err
	}
	if kind := f.Getenv("TERM"); kind != "" && s.tty {
		env = append([]string{"TERM=" + kind}, env...)
	}
	return latest(append(env, given...)), nil
}

// Variables gives a value to each that is only a name.
func Variables(f *cmdutil.Factory, field string, texts []string) ([]string, error) {
	var env []string
	for _, text := range texts {
		e, err := variable(f, field, text)
		if err != nil {
			return nil, err
		}
		env = append(env, e)
	}
	return env, nil
}

// variable completes NAME with its value in this environment.
func variable(f *cmdutil.Factory, field, text string) (string, error) {
	if strings.HasPrefix(text, "=") {
		return "", types.Errorf(types.Invalid, "%s: %q has no name: write NAME=value", field, text)
	}
	if strings.Contains(text, "=") {
		return text, nil
	}
	value := f.Getenv(text)
	if value == "" {
		return "", types.Errorf(types.Invalid, "%s: %q is not NAME=value, and no variable of this environment has that name: write NAME=value", field, text)
	}
	return text + "=" + value, nil
}

// latest keeps the last value of each variable, at its first place.
func latest(env []string) []string {
	var out []string
	at := make(map[string]int)
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if i, ok := at[name]; ok {
			out[i] = e
			continue
		}
		at[name] = len(out)
		out = append(out, e)
	}
	return out
}

// readEnvFile reads lines of NAME=value or NAME; it skips empty lines and those that begin with #.
func readEnvFile(f *cmdutil.Factory, name string) ([]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "env-file: %w: name a file of lines NAME=value", err)
	}
	defer file.Close()
	var env []string
	lines := bufio.NewScanner(io.LimitReader(file, types.MaxSpecBytes))
	lines.Buffer(nil, types.MaxSpecBytes)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		e, err := variable(f, name+":"+strconv.Itoa(n), text)
		if err != nil {
			return nil, err
		}
		env = append(env, e)
	}
	if err := lines.Err(); err != nil {
		return nil, types.Errorf(types.Invalid, "env-file: %s: %w: write lines NAME=value", name, err)
	}
	return env, nil
}

// parseMount reads SOURCE:TARGET[:ro].
func parseMount(text string) (types.Mount, error) {
	parts := strings.Split(text, ":")
	switch {
	case len(parts) == 1:
		return types.Mount{}, types.Errorf(types.Invalid, "mount: %q has no target: write /on/the/node:/in/the/container, or give --scratch %s for an empty directory", text, text)
	case len(parts) > 3 || len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" || parts[0] == "":
		return types.Mount{}, types.Errorf(types.Invalid, "mount: %q is no mount: write SOURCE:TARGET or SOURCE:TARGET:ro", text)
	}
	clean := func(p string) string {
		if path.IsAbs(p) {
			return path.Clean(p) // completion leaves a slash at the end
		}
		return p
	}
	return types.Mount{Source: clean(parts[0]), Target: clean(parts[1]), ReadOnly: len(parts) == 3 && parts[2] == "ro"}, nil
}

// parsePort reads NAME[=NUMBER].
func parsePort(text string) (types.TaskPort, error) {
	name, number, given := strings.Cut(text, "=")
	if n, err := strconv.Atoi(name); err == nil && !given {
		return types.TaskPort{}, types.Errorf(types.Invalid, "port: %q has no name: write http=%d, or a name alone for a port that the node chooses", text, n)
	}
	if parts := strings.Split(text, ":"); len(parts) > 1 { // as docker has it: [IP:]PORT:PORT
		outer := parts[len(parts)-2]
		return types.TaskPort{}, types.Errorf(types.Invalid, "port: %q maps a port, which Escher does not: write http=%s, and let the program listen at $PORT", text, outer)
	}
	if !given {
		return types.TaskPort{Name: name}, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > types.MaxPort {
		return types.TaskPort{}, types.Errorf(types.Invalid, "port: %q is no port: write NAME=NUMBER with a number from 1 to %d", text, types.MaxPort)
	}
	return types.TaskPort{Name: name, Number: n}, nil
}

// parseRestart reads never, on-failure[:LIMIT] or always[:LIMIT].
func (s *specFlags) parseRestart() (*types.Restart, error) {
	when, limit, limited := strings.Cut(s.restart, ":")
	r := &types.Restart{When: types.RestartWhen(when), Delay: s.delay, MaxDelay: s.maxDelay}
	switch {
	case s.restart == "never" || s.restart == "no" || s.restart == "":
		if s.delay != 0 || s.maxDelay != 0 {
			return nil, types.Errorf(types.Invalid, "restart-delay: is given, and nothing is restarted: give --restart on-failure or --restart always too")
		}
		return nil, nil
	case r.When != types.RestartOnFailure && r.When != types.RestartAlways:
		return nil, types.Errorf(types.Invalid, "restart: %q is unknown: use never, on-failure, on-failure:5 or always", s.restart)
	case limited:
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 {
			return nil, types.Errorf(types.Invalid, "restart: %q has no limit after the colon: write how often at most, such as %s:5", s.restart, when)
		}
		r.Limit = n
	}
	return r, nil
}

// checkBinary refuses a binary that cannot run in an image of its own.
func checkBinary(name string) error {
	file, err := elf.Open(name)
	if err != nil {
		if _, ok := errors.AsType[*os.PathError](err); ok {
			return types.Errorf(types.Invalid, "binary: %w: give the path of a static binary", err)
		}
		return types.Errorf(types.Invalid, "binary: %s is no program for Linux: give the path of a static binary", name)
	}
	defer func() { _ = file.Close() }() // it was read
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return types.Errorf(types.Invalid, "binary: %s needs libraries, and its image would have none: link it statically (Go: CGO_ENABLED=0), or run an image that has them", name)
		}
	}
	return nil
}
