package types

import (
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/moby/sys/signal"
)

// SocketDir is the directory of the task's socket in its container. Nothing may be mounted there.
const SocketDir = "/run/escher"

// InitPath is the path of the init in a container that asks for one. Nothing may be mounted in its
// directory.
const InitPath = "/.escher/init"

// Validate checks a spec, and lists all problems.
func (s *Spec) Validate() error {
	var errs []error
	if err := s.validateCounts(); err != nil {
		return err
	}
	if s.Image == "" {
		errs = append(errs, Errorf(Invalid, "image: is empty: name the image to run"))
	}
	if strings.ContainsAny(s.Image, " \t\n") {
		errs = append(errs, Errorf(Invalid, "image: %q contains white space: write a reference such as docker.io/library/busybox:1.36", shorten(s.Image)))
	}
	if s.Dir != "" && !strings.HasPrefix(s.Dir, "/") {
		errs = append(errs, Errorf(Invalid, "dir: %q is not absolute: begin it with '/'", shorten(s.Dir)))
	}
	errs = append(errs, s.validateTexts())
	for i, e := range s.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			errs = append(errs, Errorf(Invalid, "%s: %q is not NAME=value: write it in that form", index("env", i), shorten(e)))
		}
	}
	errs = append(errs, validateGrace("grace", s.Grace), s.Restart.validate(), validateSignal("stopSignal", s.StopSignal), validateMounts(s.Mounts), validatePorts(s.Ports), s.Peers.validate(), s.validateIsolation(), s.validateHealth(), s.validateWorkdir(), s.validateMemory(), s.validateUlimits(), s.validateInput(), s.validateSecrets())
	if err := validateSize(s, len(Encode(0, s))); err != nil {
		errs = append(errs, Errorf(Invalid, "spec: %w, put large data into the image or a file", err))
	}
	return joinInvalid(nonNil(errs))
}

func (p Peers) validate() error {
	_, err := ParsePeers(string(p))
	return err
}

// validateCounts checks the lengths of all lists before their elements.
func (s *Spec) validateCounts() error {
	var p problems
	p.count("mounts", len(s.Mounts), MaxMounts)
	p.count("tmpfs", len(s.Tmpfs), MaxMounts)
	p.count("ulimits", len(s.Ulimits), len(Ulimits()))
	p.count("ports", len(s.Ports), MaxPorts)
	p.count("checks", len(s.Checks), MaxChecks)
	p.count("capAdd", len(s.CapAdd), 2*len(capabilities))
	p.count("capDrop", len(s.CapDrop), 2*len(capabilities))
	p.words("command", slices.Concat(s.Entrypoint, s.Command), MaxWords)
	p.words("env", s.Env, MaxWords)
	for i := range s.Checks[:min(len(s.Checks), MaxChecks)] {
		p.words(index("checks", i)+".exec.command", s.Checks[i].Exec, MaxCheckWords)
	}
	return p.err()
}

// words checks the size of a list of texts in the memory of a program, each with a zero byte.
func (p *problems) words(field string, words []string, limit int) {
	size := 0
	for _, w := range words {
		size += len(w) + 1
	}
	if size > limit {
		p.add(Errorf(Invalid, "%s: has %d bytes: at most %d are allowed, put large data into the image or a file", field, size, limit))
	}
}

// validateTexts checks texts for the kernel.
func (s *Spec) validateTexts() error {
	var p problems
	p.text("image", s.Image, MaxImage)
	p.text("dir", s.Dir, MaxPath)
	p.text("user", s.User, MaxText)
	errs := []error(p)
	if len(s.Entrypoint) > 0 && s.Entrypoint[0] == "" {
		errs = append(errs, Errorf(Invalid, "entrypoint: is empty, and so is the program to run: name it, or give a command"))
	}
	for i, arg := range s.Entrypoint {
		errs = append(errs, validateText(index("entrypoint", i), arg))
	}
	for i, arg := range s.Command {
		errs = append(errs, validateText(index("command", i), arg))
	}
	for i, e := range s.Env {
		errs = append(errs, validateText(index("env", i), e))
	}
	return joinInvalid(nonNil(errs))
}

// validateText checks that a text can be stored and passed to a program.
func validateText(field, text string) error {
	if !utf8.ValidString(text) {
		return Errorf(Invalid, "%s: %q is not UTF-8: encode it, or put it into the image or a file", field, shorten(text))
	}
	if strings.Contains(text, "\x00") {
		return Errorf(Invalid, "%s: %q contains a zero byte: leave it out", field, shorten(text))
	}
	return nil
}

func (r *Restart) validate() error {
	if r == nil {
		return nil
	}
	var errs []error
	if r.When != RestartOnFailure && r.When != RestartAlways {
		errs = append(errs, Errorf(Invalid, "restart.when: %q is unknown: use on-failure or always, or leave restart out for never", shorten(string(r.When))))
	}
	if r.Limit < 0 {
		errs = append(errs, Errorf(Invalid, "restart.limit: %d is negative: give the highest number, or 0 for no limit", r.Limit))
	} else if r.Limit > MaxCount {
		errs = append(errs, Errorf(Invalid, "restart.limit: %d is too large: give at most %d, or 0 for no limit", r.Limit, MaxCount))
	}
	errs = append(errs, validateDelay("restart.delay", r.Delay), validateDelay("restart.maxDelay", r.MaxDelay))
	if r.MaxDelay > 0 && r.Delay > r.MaxDelay {
		errs = append(errs, Errorf(Invalid, "restart.delay: %s is longer than restart.maxDelay, which is %s: swap them, or give one of them", r.Delay, r.MaxDelay))
	}
	return joinInvalid(nonNil(errs))
}

// ParseSignal returns the name of a signal in the form of a spec: SIGINT for int, INT or SIGINT.
// Invalid: there is no such signal.
func ParseSignal(text string) (string, error) {
	name := "SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG")
	return name, validateSignal("stopSignal", name)
}

// Signals returns the names of all signals but those of real time, without SIG, sorted.
func Signals() []string {
	doubles := []string{"CLD", "IOT", "POLL"}
	var names []string
	for name := range signal.SignalMap {
		if !strings.HasPrefix(name, "RT") && !slices.Contains(doubles, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func validateSignal(field, name string) error {
	if name == "" {
		return nil
	}
	_, known := signal.SignalMap[strings.TrimPrefix(name, "SIG")]
	if !known || !strings.HasPrefix(name, "SIG") {
		return Errorf(Invalid, "%s: %q is not a signal: write its name, such as SIGINT, SIGQUIT or SIGUSR1; the others are SIG and one of %s", field, shorten(name), strings.Join(Signals(), ", "))
	}
	return nil
}

func validateMounts(mounts []Mount) error {
	var errs []error
	seen := make(map[string]bool)
	for i, m := range mounts {
		at := index("mounts", i)
		if m.Source != "" {
			errs = append(errs, validatePath(at+".source", m.Source))
		}
		errs = append(errs, validatePath(at+".target", m.Target), validateTarget(at+".target", m.Target))
		if seen[m.Target] {
			errs = append(errs, Errorf(Invalid, "%s.target: %q is mounted twice: choose another", at, shorten(m.Target)))
		}
		seen[m.Target] = true
	}
	return joinInvalid(nonNil(errs))
}

// IsWorkdirImage reports whether an image is that of a sent directory.
func IsWorkdirImage(image string) bool {
	digest, ok := strings.CutPrefix(image, WorkdirRepository+"@sha256:")
	if !ok || digest != strings.ToLower(digest) {
		return false
	}
	sum, err := hex.DecodeString(digest)
	return err == nil && len(sum) == 32
}

// validateWorkdir checks the directory, and that no mount hides it.
func (s *Spec) validateWorkdir() error {
	d := s.Workdir
	if d == nil {
		return nil
	}
	var errs []error
	switch {
	case d.Image == "":
		errs = append(errs, Errorf(Invalid, "workdir.image: is missing: the command line sends a directory before it submits the task"))
	case !IsWorkdirImage(d.Image):
		errs = append(errs, Errorf(Invalid, "workdir.image: %q is not the image of a directory: it is %s@sha256: and a digest, made when the directory is sent", shorten(d.Image), WorkdirRepository))
	}
	errs = append(errs, validatePath("workdir.to", d.Target), validateTarget("workdir.to", d.Target))
	for i, m := range s.Mounts {
		if m.Target == d.Target {
			errs = append(errs, Errorf(Invalid, "%s.target: %q is the workdir too: choose another", index("mounts", i), shorten(m.Target)))
		}
	}
	for i, f := range s.Tmpfs {
		if f.Target == d.Target {
			errs = append(errs, Errorf(Invalid, "%s.target: %q is the workdir too: choose another", index("tmpfs", i), shorten(f.Target)))
		}
	}
	return joinInvalid(nonNil(errs))
}

// validatePath checks that a path is absolute and clean.
func validatePath(field, p string) error {
	if len(p) > MaxPath {
		return Errorf(Invalid, "%s: %q has %d bytes: at most %d are allowed, shorten it", field, shorten(p), len(p), MaxPath)
	}
	if err := validateText(field, p); err != nil {
		return err
	}
	switch {
	case p == "":
		return Errorf(Invalid, "%s: is empty: give an absolute path", field)
	case !path.IsAbs(p):
		return Errorf(Invalid, "%s: %q is not absolute: begin it with '/'", field, shorten(p))
	case path.Clean(p) != p:
		return Errorf(Invalid, "%s: %q is not a clean path: write %s", field, shorten(p), shorten(path.Clean(p)))
	}
	return nil
}

// validateTarget refuses mounts over the parts of a container that Escher manages.
func validateTarget(field, target string) error {
	below := func(dir string) bool { return target == dir || strings.HasPrefix(target, dir+"/") }
	switch {
	case target == "/", target == "/dev", below("/proc"), below("/sys"):
		return Errorf(Invalid, "%s: %q is part of every container: choose a directory of your own", field, shorten(target))
	case below(path.Dir(InitPath)):
		return Errorf(Invalid, "%s: %q holds the init of a task: choose another directory", field, shorten(target))
	case below(SocketDir), target == path.Dir(SocketDir):
		return Errorf(Invalid, "%s: %q would hide the task's socket in %s: choose another directory", field, shorten(target), SocketDir)
	}
	return nil
}

// Env returns the name of the variable with the port number: ESCHER_PORT_HTTP for http.
func (p *TaskPort) Env() string {
	return "ESCHER_PORT_" + strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(p.Name))
}

func validatePorts(ports []TaskPort) error {
	var errs []error
	names, numbers := make(map[string]bool), make(map[int]bool)
	for i, p := range ports {
		at := index("ports", i)
		errs = append(errs, ValidateName(at+".name", p.Name))
		switch {
		case p.Number < 0 || p.Number > MaxPort:
			errs = append(errs, Errorf(Invalid, "%s.number: %d is not a port: give 1 to %d, or leave it out to let the node choose", at, p.Number, MaxPort))
		case numbers[p.Number]:
			errs = append(errs, Errorf(Invalid, "%s.number: %d is given twice: choose another", at, p.Number))
		}
		numbers[p.Number] = p.Number != 0
		if names[p.Env()] {
			errs = append(errs, Errorf(Invalid, "%s.name: %q is given twice, as %s: choose another", at, shorten(p.Name), p.Env()))
		}
		names[p.Env()] = true
	}
	return joinInvalid(nonNil(errs))
}

// validatePortAmount checks that a request is for whole ports.
func validatePortAmount(field string, x Request) error {
	_, name, _ := ResourceID(x.Name).Split()
	base, _, _ := strings.Cut(name, "@")
	if _, fixed := ResourceID(base).FixedPort(); fixed && x.Amount != 1000 {
		return Errorf(Invalid, "%s: %s of a single port is requested: request 1", field, x.Amount.Format(Port))
	}
	if base == string(Port) && x.Amount%1000 != 0 {
		return Errorf(Invalid, "%s: %s is not a whole number of ports: request whole ones", field, x.Amount.Format(Port))
	}
	return nil
}

// Implied returns the requests that follow from the spec: the number of Port without a number, each
// port with a number, and the permits.
func (s *Spec) Implied() Requests {
	amounts := make(map[string]Quantity)
	for _, id := range s.Permits() {
		amounts[string(id)] = 1000
	}
	for _, p := range s.Ports {
		id := Port
		if p.Number < 0 || p.Number > MaxPort {
			continue // Validate refuses it
		}
		if p.Number != 0 {
			id = FixedPort(p.Number)
		}
		amounts[string(id)] += 1000
	}
	if len(amounts) == 0 {
		return nil
	}
	return NewRequests(amounts)
}

// WithImplied returns requests with the missing part of Implied added. The requests may exceed it,
// and draw on a reservation.
func (s *Spec) WithImplied(requests Requests) Requests {
	var lack []Request
	for _, x := range s.Implied() {
		if short := x.Amount - requests.unscoped(x.Name); short > 0 {
			lack = append(lack, Request{x.Name, short})
		}
	}
	return requests.Plus(lack)
}

// unscoped returns the amount of name in the requests, with and without a reservation.
func (r Requests) unscoped(name string) Quantity {
	var sum Quantity
	for _, x := range r {
		if base, _, _ := strings.Cut(x.Name, "@"); base == name {
			sum += x.Amount
		}
	}
	return sum
}

// ValidateImplied checks that the task requests what its spec implies: see Spec.Implied.
func (t *Task) ValidateImplied(s *Spec) error {
	var errs []error
	for _, x := range s.Implied() {
		if has := t.Requests.unscoped(x.Name); has < x.Amount {
			errs = append(errs, Errorf(Invalid, "requests.%s: %s is requested, and the spec needs %s: request that, see Spec.WithImplied",
				x.Name, has.Format(Port), x.Amount.Format(Port)))
		}
	}
	return joinInvalid(nonNil(errs))
}

// validateInput checks that a task with an input needs it only once.
func (s *Spec) validateInput() error {
	if s.Stdin && s.Restart != nil {
		return Errorf(Invalid, "stdin: is true, and restart is %s: a restarted process has no input: leave out one of them", s.Restart.When)
	}
	return nil
}

// ValidateInput checks that a task with an input has no retries, whose input would be gone.
func (t *Task) ValidateInput(s *Spec) error {
	if s.Stdin && t.Retries > 0 {
		return Errorf(Invalid, "stdin: is true, and retries is %d: another attempt has no input: leave out one of them", t.Retries)
	}
	return nil
}

// RunsOn returns Invalid if an attempt of that number cannot run, because the input went to an
// earlier one.
func (s *Spec) RunsOn(attempt int) error {
	if s.Stdin && attempt > 1 {
		return Errorf(Invalid, "run attempt %d: the input of the task went to an earlier attempt: run the task again", attempt)
	}
	return nil
}
