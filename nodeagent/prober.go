package nodeagent

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// execPatience limits the time until a command runs in a container. The timeout of a check starts
// then: a busy machine or a hanging containerd says nothing about the process.
const execPatience = 30 * time.Second

// prober makes the checks of one process, each in a goroutine. At most one probe of each check is
// under way, and no check waits for another.
type prober struct {
	t *task
	// restart is the number of restarts before the process, started the time of its start.
	restart int
	started time.Time
	checks  []types.Check
	// ports are those of the task, by name.
	ports map[string]int
	// told is the health that was reported of the process before.
	told Health
	// all are the states of the checks; guarded by Agent.mu.
	all []standing
	// stop ends the probes.
	stop func()
}

// probe starts the checks of the running process. The checks of a process that was probed before
// keep their state.
func (t *task) probe(ctx context.Context) {
	a := t.a
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &t.seen
	if t.binding == nil || t.spec == nil || s.Container != Running {
		return
	}
	p := t.prober
	if p == nil || p.restart != s.Restart {
		p = newProber(t)
		t.prober = p
	}
	ctx, p.stop = context.WithCancel(ctx)
	s.Probing = true
	if s.Health.State == "" {
		s.Health = presentHealthOf(p)
	}
	for i := range p.checks {
		a.spawn(func(context.Context) { p.follow(ctx, i) })
	}
}

// useImageCheck adds the check of the image to the spec, if it has none and does not decline. Specs
// are shared, so it changes a copy. The caller holds a.mu.
func (t *task) useImageCheck() {
	if t.imageCheck == nil || t.spec == nil || t.spec.NoHealthcheck || len(t.spec.Checks) > 0 {
		return
	}
	spec := *t.spec
	spec.Checks = []types.Check{*t.imageCheck}
	t.spec = &spec
}

// newProber makes the prober of the running process. The caller holds a.mu.
func newProber(t *task) *prober {
	s := &t.seen
	p := &prober{t: t, restart: s.Restart, started: s.Started, ports: t.spec.PortNumbers(t.binding.Ports()), told: toldHealth(s)}
	for _, c := range t.spec.Checks {
		p.checks = append(p.checks, c.WithDefaults())
		p.all = append(p.all, standing{state: types.HealthStarting})
	}
	return p
}

// presentHealthOf returns the combined result of the checks.
func presentHealthOf(p *prober) Health { return healthOf(p.checks, p.all, p.told) }

// endProbes ends the probes of a process that has ended. The caller holds a.mu.
func (t *task) endProbes() {
	if t.prober != nil {
		t.prober.stop()
	}
	t.seen.Probing = false
}

// follow makes one check until ctx is done.
func (p *prober) follow(ctx context.Context, i int) {
	c := &p.checks[i]
	var last time.Time
	for {
		p.t.a.mu.Lock()
		at := p.all[i].probeAt(c, p.started, last)
		p.t.a.mu.Unlock()
		// After the clock was set back, a start in the future does not prevent probes.
		if supervise.Pause(ctx, min(time.Until(at), max(c.Every, firstProbe))) != nil {
			return
		}
		last = time.Now()
		p.noted(i, p.look(ctx, c))
	}
}

// noted records the result of a probe, unless the process is another one or is being ended.
func (p *prober) noted(i int, o outcome) {
	t := p.t
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	s := &t.seen
	if t.prober != p || s.Restart != p.restart || s.Container != Running || s.Cause != "" {
		return
	}
	p.all[i] = p.all[i].next(&p.checks[i], o, time.Since(p.started))
	was := s.Health
	s.Health = presentHealthOf(p)
	if was == s.Health {
		return
	}
	if was.State != s.Health.State {
		switch s.Health.State {
		case types.Healthy:
			t.note(StepHealthy, "")
		case types.Unhealthy:
			t.note(StepUnhealthy, "%s", s.Health.Reason)
		}
	}
	t.poke()
}

// look makes one probe.
func (p *prober) look(ctx context.Context, c *types.Check) outcome {
	switch {
	case len(c.Exec) > 0:
		return p.execute(ctx, c)
	case c.HTTP != nil:
		return p.request(ctx, c)
	case c.TCP != nil:
		return p.connect(ctx, c)
	}
	return outcome{unknown: true} // a kind of a later version
}

// execute runs the command of a check in the container, and kills it after its timeout.
func (p *prober) execute(ctx context.Context, c *types.Check) outcome {
	ctx, cancel := context.WithTimeout(ctx, execPatience+c.Timeout)
	defer cancel()
	var late bool
	var mu sync.Mutex // guards late
	var timer *time.Timer
	out := &head{}
	code, err := p.t.a.cfg.Runtime.Exec(ctx, p.t.id, Process{
		Command: c.Exec, Stdout: out, Stderr: out,
		Started: func() {
			mu.Lock()
			defer mu.Unlock()
			timer = time.AfterFunc(c.Timeout, func() {
				mu.Lock()
				defer mu.Unlock()
				late = true
				cancel()
			})
		},
	})
	mu.Lock()
	defer mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	switch {
	case late:
		return outcome{text: tooLate(c, out.String())}
	case types.Is(err, types.NotFound), types.Is(err, types.Invalid):
		return outcome{text: oneLine(err.Error())}
	case err != nil:
		return outcome{unknown: true}
	case code != 0:
		return outcome{text: withOutput(fmt.Sprintf("exit code %d", code), out.String())}
	}
	return outcome{good: true}
}

func tooLate(c *types.Check, output string) string {
	return withOutput(fmt.Sprintf("did not end within %s", c.Timeout), output)
}

// withOutput appends the output of a probe.
func withOutput(text, output string) string {
	if output = oneLine(output); output != "" {
		text += ": " + output
	}
	return text
}

// connect connects to the port of a check.
func (p *prober) connect(ctx context.Context, c *types.Check) outcome {
	address, err := p.address(c.TCP.Port)
	if err != nil {
		return outcome{text: oneLine(err.Error())}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	conn, err := p.t.a.cfg.Dial(ctx, "tcp", address)
	if err != nil {
		return outcome{text: unreached(c, err)}
	}
	_ = conn.Close() // The connection succeeded.
	return outcome{good: true}
}

// maxAnswer limits how much of an answer is read: the probe needs only its status and the start of
// its body.
const maxAnswer = 64 << 10

// request sends the HTTP request of a check. It follows no redirects. It opens a connection each
// time, to find out whether that is possible.
func (p *prober) request(ctx context.Context, c *types.Check) outcome {
	address, err := p.address(c.HTTP.Port)
	if err != nil {
		return outcome{text: oneLine(err.Error())}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	conn, err := p.t.a.cfg.Dial(ctx, "tcp", address)
	if err != nil {
		return outcome{text: unreached(c, err)}
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	answer, err := ask(ctx, conn, "http://"+address+cmp.Or(c.HTTP.Path, "/"))
	if err != nil {
		return outcome{text: unreached(c, err)}
	}
	if want := c.HTTP.Status; want == answer.StatusCode || want == 0 && answer.StatusCode >= 200 && answer.StatusCode < 400 {
		return outcome{good: true}
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxOutcome)) // as much of it as arrived
	return outcome{text: withOutput(fmt.Sprintf("status %d", answer.StatusCode), string(body))}
}

// ask sends a request and reads the start of the answer. The client of net/http would keep
// connections, and log answers without a request.
func ask(ctx context.Context, conn net.Conn, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Close = true
	req.Header.Set("User-Agent", "escher-check")
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxAnswer)), req)
}

// address returns the address of a port of the task.
func (p *prober) address(port string) (string, error) {
	n, err := types.CheckPort(port, p.ports)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(n)), nil
}

// unreached returns why there is no connection or no answer.
func unreached(c *types.Check, err error) string {
	if late, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && late.Timeout() {
		return fmt.Sprintf("no answer within %s", c.Timeout)
	}
	return oneLine(err.Error())
}

// head keeps the beginning of what is written to it, and drops the rest.
type head struct {
	mu   sync.Mutex
	text []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if room := maxOutcome - len(h.text); room > 0 {
		h.text = append(h.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.text)
}

// renew resets the health, warning and signals for the next process. The caller holds a.mu.
func (t *task) renew() {
	s := &t.seen
	t.endProbes()
	s.Health = Health{}
	if s.Cause != Unhealthy && s.Warned.IsZero() {
		return
	}
	if s.Cause == Unhealthy {
		s.Cause = ""
	}
	s.Signalled, s.Killed, s.Warned = time.Time{}, time.Time{}, time.Time{}
	if s.Cause == "" {
		t.a.marks.drop(t.id)
	}
}
