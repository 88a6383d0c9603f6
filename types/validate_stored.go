package types

import (
	"strings"
	"time"
)

// Validate methods of the values that agents, schedulers and servers store, and their helpers. They
// bound every text, list, amount and time by the table of limits. Decode calls them: an invalid
// stored value counts as absent.

// maxBytes returns the largest size of an encoded message.
func maxBytes(m Message) int {
	switch m.(type) {
	case *Task:
		return MaxTaskBytes
	case *Spec:
		return MaxSpecBytes
	}
	return MaxMessageBytes
}

// validateSize checks the size of an encoded message.
func validateSize(m Message, size int) error {
	if limit := maxBytes(m); size > limit {
		return Errorf(Invalid, "it has %d bytes: at most %d are allowed", size, limit)
	}
	return nil
}

// CheckSize refuses to store an encoded message of so many bytes under a key if no reader would take
// it: see Decode. Invalid: the error names the key.
func CheckSize(key string, m Message, size int) error {
	if err := validateSize(m, size); err != nil {
		return Errorf(Invalid, "write %s: %w: ask for less in one object, or split it", key, err)
	}
	return nil
}

// problems collects the problems of a message.
type problems []error

func (p *problems) add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			*p = append(*p, err)
		}
	}
}

// err joins all problems into one Invalid error; nil if there are none.
func (p problems) err() error { return joinInvalid(p) }

// name checks an optional name.
func (p *problems) name(field, name string) {
	if name != "" {
		p.add(ValidateName(field, name))
	}
}

// text checks the size and encoding of a text.
func (p *problems) text(field, text string, limit int) {
	if len(text) > limit {
		p.add(Errorf(Invalid, "%s: %q has %d bytes: at most %d are allowed, shorten it", field, shorten(text), len(text), limit))
		return
	}
	p.add(validateText(field, text))
}

// count checks the length of a list, and reports whether its elements may be checked.
func (p *problems) count(field string, n, limit int) bool {
	if n <= limit {
		return true
	}
	p.add(Errorf(Invalid, "%s: has %d: at most %d are allowed, drop some", field, n, limit))
	return false
}

// within checks the range of a number.
func within[N ~int | ~int64](p *problems, field string, n, least, most N) {
	if n < least || n > most {
		p.add(Errorf(Invalid, "%s: %d is out of range: give %d to %d", field, n, least, most))
	}
}

// moments checks times in Unix nanoseconds; 0 means none.
func (p *problems) moments(field string, at ...int64) {
	for _, t := range at {
		within(p, field, t, 0, MaxMoment)
	}
}

// revisions checks revisions of etcd; 0 means none.
func (p *problems) revisions(field string, revisions ...int64) {
	for _, r := range revisions {
		if r < 0 {
			p.add(Errorf(Invalid, "%s: %d is not a revision: give 0 or more", field, r))
		}
	}
}

// oneOf checks the value of an enumeration.
func oneOf[T ~string](p *problems, field string, value T, allowed ...T) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	texts := make([]string, 0, len(allowed))
	for _, a := range allowed {
		if a != "" {
			texts = append(texts, string(a))
		}
	}
	p.add(Errorf(Invalid, "%s: %q is unknown: use %s", field, shorten(string(value)), strings.Join(texts, ", ")))
}

// validateDelay checks a duration that is 0 or more.
func validateDelay(field string, d time.Duration) error { return validateTime(field, d, MaxDuration) }

// validateGrace checks the time between a stop signal and the kill.
func validateGrace(field string, d time.Duration) error { return validateTime(field, d, MaxGrace) }

func validateTime(field string, d, most time.Duration) error {
	switch {
	case d < 0:
		return Errorf(Invalid, "%s: %s is negative: use 0 or more", field, d)
	case d > most:
		return Errorf(Invalid, "%s: %s is too long: use at most %s", field, d, most)
	}
	return nil
}

// validatePriority checks a priority or a raise.
func validatePriority(field string, n int) error {
	if n < -MaxPriority || n > MaxPriority {
		return Errorf(Invalid, "%s: %d is out of range: use %d to %d", field, n, -MaxPriority, MaxPriority)
	}
	return nil
}

// validate checks the full id of a resource: see ResourceID.
func (id ResourceID) validate(field string) error {
	ns, name, full := strings.Cut(string(id), ":")
	if !full {
		return validateRequestName(field, string(id))
	}
	if err := ValidateName(field, ns); err != nil {
		return err
	}
	return validateRequestName(field, name)
}

// capacity checks a capacity: 0 or more, or Inf.
func (p *problems) capacity(field string, id ResourceID, q Quantity) {
	switch {
	case q < 0:
		p.add(Errorf(Invalid, "%s: %s is negative: a capacity is 0 or more", field, q.Format(id)))
	case q > MaxQuantity && q != Inf:
		p.add(Errorf(Invalid, "%s: %s is too large: the largest is %s; inf means no bound", field, q.Format(id), MaxQuantity.Format(id)))
	}
}

// holdings checks held amounts: each is 0 or more. It allows two holders of one device: an audit
// must find them, and an account that counts as absent would hide them.
func (p *problems) holdings(field string, holds []Holding) {
	if !p.count(field, len(holds), MaxMessageBytes/8) {
		return
	}
	for i := range holds {
		h := &holds[i]
		if h.Amount >= 0 && h.Amount <= MaxAllocated && len(h.Devices) == 0 && h.Resource.validate("") == nil {
			continue // the common case; errors below need the field
		}
		at := index(field, i)
		p.add(h.Resource.validate(at + ".resource"))
		if h.Amount < 0 || h.Amount > MaxAllocated {
			p.add(Errorf(Invalid, "%s.amount: %s is out of range: it is 0 to %s", at, h.Amount.Format(h.Resource), MaxAllocated.Format(h.Resource)))
		}
		if !p.count(at+".devices", len(h.Devices), MaxDevices) {
			continue
		}
		for j, d := range h.Devices {
			if d.ID == "" || len(d.ID) > MaxText || d.Share < 0 || d.Share > MaxAllocated {
				p.add(Errorf(Invalid, "%s: %d thousandths of %q: a share is 0 or more, of a device with a name of 1 to %d bytes",
					index(at+".devices", j), d.Share, shorten(d.ID), MaxText))
			}
		}
	}
}

// ValidateHost checks the host of a node, which becomes part of the environment of tasks: an IP
// address or a name, or nothing. Invalid: the error names the field.
func ValidateHost(field, host string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_%"
	if len(host) > MaxHost || strings.Trim(host, allowed) != "" {
		return Errorf(Invalid, "%s: %q is not an IP address or the name of a machine: give one, of at most %d bytes", field, shorten(host), MaxHost)
	}
	return nil
}

// Validate checks a node of an agent, and lists all problems.
func (n *Node) Validate() error {
	var p problems
	if p.count("capacity", len(n.Capacity), MaxCapacities) {
		for _, x := range n.Capacity {
			at := "capacity." + shorten(x.Name)
			p.add(validateRequestName(at, x.Name))
			p.capacity(at, ResourceID(x.Name), x.Amount)
		}
	}
	p.labels("labels", n.Labels)
	p.labels("setLabels", n.SetLabels)
	p.labels("hiddenLabels", n.HiddenLabels)
	p.text("address", n.Address, MaxPath)
	if strings.HasPrefix(n.Address, TunnelAddress) && n.Address != TunnelAddress {
		p.add(Errorf(Invalid, "address: %q has more than %s: a tunnel has no other address", shorten(n.Address), TunnelAddress))
	}
	p.text("version", n.Version, MaxText)
	p.add(ValidateHost("host", n.Host))
	within(&p, "portFirst", n.PortFirst, 0, MaxPort)
	within(&p, "portLast", n.PortLast, 0, MaxPort)
	return p.err()
}

// Validate checks the liveness value of a node.
func (a *Alive) Validate() error {
	var p problems
	within(&p, "ttlSeconds", a.TTLSeconds, 0, int64(MaxDuration/time.Second))
	p.text("token", a.Token, MaxText)
	return p.err()
}

// Validate checks the token of a node.
func (t *Token) Validate() error {
	var p problems
	p.text("token", t.Token, MaxText)
	if strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.add(Errorf(Invalid, "token: has a character that no HTTP header takes: restart the node's agent, which writes another one"))
	}
	return p.err()
}

// Validate checks the devices of a node, and lists all problems.
func (d *Devices) Validate() error {
	var p problems
	if !p.count("devices", len(d.Devices), MaxDevices) {
		return p.err()
	}
	for i := range d.Devices {
		x, at := &d.Devices[i], index("devices", i)
		p.text(at+".id", x.ID, MaxText)
		p.add(x.Resource.validate(at + ".resource"))
		p.text(at+".model", x.Model, MaxText)
		p.text(at+".unhealthy", x.Unhealthy, MaxReason)
		p.text(at+".bus", x.Bus, MaxText)
		p.text(at+".parent", x.Parent, MaxText)
		p.moments(at+".unhealthySince", x.UnhealthySince)
		if x.MemoryBytes < 0 || x.MemoryBytes > int64(MaxQuantity) {
			p.add(Errorf(Invalid, "%s.memoryBytes: %d is out of range: it is 0 to %d", at, x.MemoryBytes, MaxQuantity))
		}
		if p.count(at+".links", len(x.Links), MaxLabels) {
			for j, link := range x.Links {
				p.text(index(at+".links", j), link, MaxText)
			}
		}
	}
	return p.err()
}

// Validate checks a cordon.
func (c *Cordon) Validate() error {
	var p problems
	p.text("reason", c.Reason, MaxReason)
	p.moments("drainBy", c.DrainBy)
	oneOf(&p, "drain", c.Drain, DrainNone, DrainFinish, DrainMove, DrainStop)
	p.add(validateGrace("grace", c.Grace))
	return p.err()
}

// validate checks a selector, and lists all problems; field names it in errors.
func (s *Selector) validate(field string) error {
	var p problems
	if s == nil {
		return nil
	}
	if p.count(field+".nodes", len(s.Nodes), MaxSelected) {
		for i, n := range s.Nodes {
			p.add(ValidateName(index(field+".nodes", i), n))
		}
	}
	p.labels(field+".labels", s.Labels)
	p.add(s.Available.Validate(field + ".available"))
	return p.err()
}

// Validate checks a stored ephemeral resource.
func (r *Resource) Validate() error {
	var p problems
	p.capacity("capacity", "", r.Capacity)
	oneOf(&p, "lifetime", r.Lifetime, Forever, OfTask, OfSession, OfReservation, OfJob, OfPolicy)
	p.name("owner", r.Owner)
	p.add(r.Selector.validate("where"))
	p.revisions("nodeSession", r.NodeSession)
	return p.err()
}

// Validate checks a resource that an ended task left behind.
func (p *Provided) Validate() error {
	var found problems
	found.capacity("amount", "", p.Amount)
	found.name("task", p.Task)
	found.name("job", p.Job)
	found.revisions("nodeSession", p.NodeSession)
	return found.err()
}

// Validate checks a job.
func (j *Job) Validate() error {
	var p problems
	p.name("name", j.Name)
	within(&p, "tasks", j.Tasks, 0, MaxJobTasks)
	p.moments("submitted", j.Submitted)
	p.text("wish", j.RequestDigest, MaxText)
	p.name("user", j.User)
	if !p.count("members", len(j.Members), MaxPeers) {
		return p.err()
	}
	for i, id := range j.Members {
		p.name(index("members", i), id)
	}
	p.labels("labels", j.Labels)
	return p.err()
}

// Validate checks a session.
func (s *Session) Validate() error {
	var p problems
	p.text("name", s.Name, MaxText)
	return p.err()
}

// Validate checks the amounts in use on a node or of a pool.
func (a *Allocated) Validate() error {
	var p problems
	p.holdings("holds", a.Holds)
	return p.err()
}

// Validate checks a grant.
func (g *Grant) Validate() error {
	var p problems
	oneOf(&p, "phase", g.Phase, Collecting, Granting, Granted, Releasing, HandedOver)
	p.revisions("reservation", g.Reservation)
	p.revisions("task", g.Task)
	p.moments("since", g.Since)
	if p.count("nodes", len(g.Nodes), MaxBundles) {
		for i := range g.Nodes {
			p.add(ValidateName(index("nodes", i)+".node", g.Nodes[i].Node))
			p.holdings(index("nodes", i)+".holds", g.Nodes[i].Holds)
		}
	}
	if p.count("bundles", len(g.Bundles), MaxBundles) {
		for i, node := range g.Bundles {
			p.name(index("bundles", i), node)
		}
	}
	return p.err()
}

// stop checks an order to end a task; nil means none.
func (p *problems) stop(s *Stop) {
	if s != nil {
		p.text("stop.reason", s.Reason, MaxReason)
		p.add(validateGrace("stop.grace", s.Grace))
	}
}

// Validate checks the order to stop a task.
func (s *Stop) Validate() error {
	var p problems
	p.text("reason", s.Reason, MaxReason)
	p.add(validateGrace("grace", s.Grace))
	return p.err()
}

// Validate checks a binding.
func (b *Binding) Validate() error {
	var p problems
	p.revisions("session", b.Session)
	p.holdings("holds", b.Holds)
	within(&p, "alternative", b.Alternative, 0, MaxAlternatives)
	p.add(validateProvides(b.Provides))
	p.text("spec", b.Spec, MaxText)
	p.moments("bound", b.Bound)
	p.moments("deadline", b.Deadline)
	p.add(validateDelay("maxRun", b.MaxRun), validateOnDisconnect(b.OnDisconnect))
	p.stop(b.Stop)
	p.text("image", b.Image, MaxImage)
	return p.err()
}

// Validate checks an agent's report.
func (r *Report) Validate() error {
	var p problems
	oneOf(&p, "phase", r.Phase, ReportStarting, ReportRunning, ReportExited)
	p.revisions("binding", r.Binding)
	p.moments("started", r.Started)
	p.moments("ended", r.Ended)
	p.text("reason", r.Reason, MaxReason)
	p.text("cause", string(r.Cause), MaxText)
	p.text("image", r.Image, MaxImage)
	within(&p, "restarts", r.Restarts, 0, MaxCount)
	p.add(validateDelay("delay", r.Delay))
	r.Used.validate(&p)
	oneOf(&p, "health", r.Health, "", HealthStarting, Healthy, Unhealthy)
	return p.err()
}

// Validate checks the status of a task.
func (s *Status) Validate() error {
	var p problems
	oneOf(&p, "phase", s.Phase, Phases()...)
	p.name("node", s.Node)
	within(&p, "attempt", s.Attempt, 0, MaxCount)
	p.moments("bound", s.Bound)
	p.moments("started", s.Started)
	p.moments("ended", s.Ended)
	p.text("reason", s.Reason, MaxReason)
	p.text("cause", string(s.Cause), MaxText)
	p.text("image", s.Image, MaxImage)
	within(&p, "restarts", s.Restarts, 0, MaxCount)
	within(&p, "failures", s.Failures, 0, MaxCount)
	p.moments("retry", s.Retry)
	s.Used.validate(&p)
	oneOf(&p, "health", s.Health, "", HealthStarting, Healthy, Unhealthy)
	return p.err()
}

// Validate checks the holder of a role.
func (l *Leader) Validate() error {
	var p problems
	p.text("holder", l.Holder, MaxText)
	p.text("version", l.Version, MaxText)
	p.text("address", l.Address, MaxText)
	p.text("token", l.Token, MaxText)
	return p.err()
}

// Validate checks the identity of a cluster.
func (c *Cluster) Validate() error {
	var p problems
	p.text("id", c.ID, MaxText)
	return p.err()
}

// Validate checks the identity of a history.
func (e *Epoch) Validate() error {
	var p problems
	p.text("id", e.ID, MaxText)
	p.text("etcd", e.Etcd, MaxText)
	return p.err()
}

// Validate checks the progress of etcd.
func (p *Progress) Validate() error {
	var found problems
	within(&found, "index", p.Index, 0, MaxIndex)
	return found.err()
}

// Validate checks the closure of admission.
func (a *Admission) Validate() error {
	var p problems
	p.text("reason", a.Reason, MaxReason)
	p.text("budget", a.Budget, MaxText)
	return p.err()
}
