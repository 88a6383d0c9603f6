package types

import (
	"strings"
	"time"
)

// Validate methods of what agents, schedulers and servers store, and helpers for all of
// them. They bound every text, list, amount and moment by the table of limits. Decode
// calls them: a stored value that is not valid counts as absent.

// maxBytes returns how large an encoded message may be.
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

// problems collects what is wrong with a message.
type problems []error

func (p *problems) add(errs ...error) {
	for _, err := range errs {
		if err != nil {
			*p = append(*p, err)
		}
	}
}

// err returns all problems as one Invalid error, nil if there are none.
func (p problems) err() error { return joinInvalid(p) }

// name checks a name that may be empty.
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

// count checks the length of a list, and reports whether it may be looked at.
func (p *problems) count(field string, n, limit int) bool {
	if n <= limit {
		return true
	}
	p.add(Errorf(Invalid, "%s: has %d: at most %d are allowed, drop some", field, n, limit))
	return false
}

// within checks a number.
func within[N ~int | ~int64](p *problems, field string, n, least, most N) {
	if n < least || n > most {
		p.add(Errorf(Invalid, "%s: %d is out of range: give %d to %d", field, n, least, most))
	}
}

// moments checks moments in Unix nanoseconds; 0 is none.
func (p *problems) moments(field string, at ...int64) {
	for _, t := range at {
		within(p, field, t, 0, MaxMoment)
	}
}

// revisions checks revisions of etcd; 0 is none.
func (p *problems) revisions(field string, revisions ...int64) {
	for _, r := range revisions {
		if r < 0 {
			p.add(Errorf(Invalid, "%s: %d is no revision: give 0 or more", field, r))
		}
	}
}

// oneOf checks an enumeration.
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

// validatePriority checks a priority, or what one is raised by.
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

// capacity checks an amount there may be: 0 or more, or no bound.
func (p *problems) capacity(field string, id ResourceID, q Quantity) {
	switch {
	case q < 0:
		p.add(Errorf(Invalid, "%s: %s is negative: a capacity is 0 or more", field, q.Format(id)))
	case q > MaxQuantity && q != Inf:
		p.add(Errorf(Invalid, "%s: %s is too large: the largest is %s; write inf for no bound", field, q.Format(id), MaxQuantity.Format(id)))
	}
}

// holdings checks what is held: each amount is 0 or more. Two holders of one device are
// for an audit to find: an account that counted as absent would hide them.
func (p *problems) holdings(field string, holds []Holding) {
	if !p.count(field, len(holds), MaxMessageBytes/8) {
		return
	}
	for i := range holds {
		h := &holds[i]
		if h.Amount >= 0 && h.Amount <= MaxAllocated && len(h.Devices) == 0 && h.Resource.validate("") == nil {
			continue // as a rule; what is wrong is said with the field
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

// Validate checks a node as its agent registers it, all problems at once.
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
	p.text("address", n.Address, MaxPath)
	p.text("version", n.Version, MaxText)
	within(&p, "portFirst", n.PortFirst, 0, MaxPort)
	within(&p, "portLast", n.PortLast, 0, MaxPort)
	return p.err()
}

func (p *problems) labels(field string, labels []Label) {
	if !p.count(field, len(labels), MaxLabels) {
		return
	}
	for i, l := range labels {
		p.add(ValidateName(index(field, i)+".name", l.Name))
		p.text(index(field, i)+".value", l.Value, MaxText)
	}
}

// Validate checks what an agent keeps on its lease.
func (a *Alive) Validate() error {
	var p problems
	within(&p, "ttlSeconds", a.TTLSeconds, 0, int64(MaxDuration/time.Second))
	p.text("token", a.Token, MaxText)
	return p.err()
}

// Validate checks what lets its bearer use a node.
func (t *Token) Validate() error {
	var p problems
	p.text("token", t.Token, MaxText)
	return p.err()
}

// Validate checks the devices of a node, all problems at once.
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

// validate checks a selector, all problems at once; field names it in errors.
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

// Validate checks an ephemeral resource as it is stored.
func (r *Resource) Validate() error {
	var p problems
	p.capacity("capacity", "", r.Capacity)
	oneOf(&p, "lifetime", r.Lifetime, Forever, OfTask, OfSession, OfReservation, OfJob, OfPolicy)
	p.name("owner", r.Owner)
	p.add(r.Selector.validate("where"))
	p.revisions("nodeSession", r.NodeSession)
	return p.err()
}

// Validate checks what an ended task left behind.
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
	p.text("wish", j.Wish, MaxText)
	return p.err()
}

// Validate checks a session.
func (s *Session) Validate() error {
	var p problems
	p.text("name", s.Name, MaxText)
	return p.err()
}

// Validate checks what is in use of the resources of a node, or of a pool.
func (a *Allocated) Validate() error {
	var p problems
	p.holdings("holds", a.Holds)
	return p.err()
}

// Validate checks a grant.
func (g *Grant) Validate() error {
	var p problems
	oneOf(&p, "phase", g.Phase, Accumulating, Granting, Granted, Releasing, Collecting, HandedOver)
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

// stop checks a request to end a task; nil is none.
func (p *problems) stop(s *Stop) {
	if s != nil {
		p.text("stop.reason", s.Reason, MaxReason)
		p.add(validateGrace("stop.grace", s.Grace))
	}
}

// Validate checks the request to stop a task.
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

// Validate checks what an agent says of a binding.
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
	oneOf(&p, "health", s.Health, "", HealthStarting, Healthy, Unhealthy)
	return p.err()
}

// Validate checks who is a scheduler, or has a role.
func (l *Leader) Validate() error {
	var p problems
	p.text("holder", l.Holder, MaxText)
	p.text("version", l.Version, MaxText)
	return p.err()
}

// Validate checks which cluster it is.
func (c *Cluster) Validate() error {
	var p problems
	p.text("id", c.ID, MaxText)
	return p.err()
}

// Validate checks which history it is.
func (e *Epoch) Validate() error {
	var p problems
	p.text("id", e.ID, MaxText)
	p.text("etcd", e.Etcd, MaxText)
	return p.err()
}

// Validate checks how far etcd had come.
func (p *Progress) Validate() error {
	var found problems
	within(&found, "index", p.Index, 0, MaxIndex)
	return found.err()
}

// Validate checks what is said about new tasks.
func (a *Admission) Validate() error {
	var p problems
	p.text("reason", a.Reason, MaxReason)
	p.text("budget", a.Budget, MaxText)
	return p.err()
}
