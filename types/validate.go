package types

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// joinInvalid joins errors into one Invalid error; nil if there are none.
func joinInvalid(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	if n := len(errs) - MaxProblems; n > 0 {
		errs = append(errs[:MaxProblems:MaxProblems], Errorf(Invalid, "%d further problems: correct these first", n))
	}
	if err := errors.Join(errs...); err != nil {
		return Errorf(Invalid, "%w", err)
	}
	return nil
}

// ValidateName checks an id or a name that becomes part of a key: letters, digits, "-", "_" and
// ".", at most MaxName bytes, with a letter or digit at both ends.
func ValidateName(field, name string) error {
	switch {
	case isName(name):
		return nil
	case name == "":
		return Errorf(Invalid, "%s: is empty: give it a name", field)
	case len(name) > MaxName:
		return Errorf(Invalid, "%s: %q has %d bytes: at most %d are allowed, shorten it", field, shorten(name), len(name), MaxName)
	}
	for i := 0; i < len(name); i++ {
		if !isNameByte(name[i]) {
			r, _ := utf8.DecodeRuneInString(name[i:])
			return Errorf(Invalid, "%s: %q contains %q: use letters, digits, '-', '_' and '.'", field, shorten(name), r)
		}
	}
	if !isAlnum(name[0]) || !isAlnum(name[len(name)-1]) {
		return Errorf(Invalid, "%s: %q must begin and end with a letter or a digit: rename it", field, name)
	}
	return nil
}

// IsName reports whether ValidateName accepts a name.
func IsName(name string) bool { return isName(name) }

func isName[T ~string | ~[]byte](name T) bool {
	if len(name) == 0 || len(name) > MaxName || !isAlnum(name[0]) || !isAlnum(name[len(name)-1]) {
		return false
	}
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isNameByte(c byte) bool { return isAlnum(c) || c == '-' || c == '_' || c == '.' }

// ValidateEphemeral checks the name of a resource that an application creates.
func ValidateEphemeral(field, name string) error {
	if IsPhysical(name) {
		return Errorf(Invalid, "%s: %q is a physical resource, set by the agent of each node: choose another name", field, name)
	}
	if strings.Contains(name, "@") {
		return Errorf(Invalid, "%s: %q belongs to a reservation and is created by granting it: use Reserve, or choose a name without '@'", field, name)
	}
	return ValidateName(field, name)
}

// validateRequestName checks the name in a request.
func validateRequestName(field, name string) error {
	base, reservation, scoped := strings.Cut(name, "@")
	if scoped {
		if err := ValidateName(field, reservation); err != nil {
			return err
		}
	}
	if strings.Contains(base, "/") {
		domain, rest, _ := strings.Cut(base, "/")
		id := ResourceID(base)
		if domain == string(Port) {
			if _, ok := id.FixedPort(); !ok {
				return Errorf(Invalid, "%s: %q is not a port: write it like port/8080, from 1 to %d", field, name, MaxPort)
			}
			return nil
		}
		if !id.IsPlacement() && !strings.Contains(domain, ".") {
			return Errorf(Invalid, "%s: %q is neither a placement (node/…, rack/…, zone/…), a port (port/8080) nor of a domain (acme.com/…): correct it", field, name)
		}
		if scoped && id.IsPlacement() {
			return Errorf(Invalid, "%s: %q: reservations hold no placements: request %q", field, name, base)
		}
		if err := ValidateName(field, domain); err != nil {
			return err
		}
		return ValidateName(field, rest)
	}
	return ValidateName(field, base)
}

// Validate checks a request vector; field names it in errors.
func (r Requests) Validate(field string) error {
	var errs []error
	if len(r) > MaxRequests {
		return Errorf(Invalid, "%s: has %d resources: at most %d fit a transaction, ask for fewer", field, len(r), MaxRequests)
	}
	for i, x := range r {
		if validateRequestName("", x.Name) == nil && validateAmount("", x) == nil && (i == 0 || r[i-1].Name < x.Name) {
			continue // the common case; errors below need the field
		}
		at := field + "." + shorten(x.Name)
		errs = append(errs, validateRequestName(at, x.Name), validateAmount(at, x))
		if i > 0 && r[i-1].Name >= x.Name {
			errs = append(errs, Errorf(Invalid, "%s: is named twice or not in order: build the vector with NewRequests", at))
		}
	}
	return joinInvalid(nonNil(errs))
}

func validateAmount(field string, x Request) error {
	switch {
	case x.Amount <= 0:
		return Errorf(Invalid, "%s: %s is not positive: request more than 0, or leave it out", field, x.Amount.Format(ResourceID(x.Name)))
	case x.Amount > MaxQuantity:
		return Errorf(Invalid, "%s: %s cannot be requested: request a bounded amount", field, x.Amount.Format(ResourceID(x.Name)))
	}
	return validatePortAmount(field, x)
}

func nonNil(errs []error) []error {
	out := errs[:0]
	for _, e := range errs {
		if e != nil {
			out = append(out, e)
		}
	}
	return out
}

// Validate checks a submitted task, and lists all problems.
func (t *Task) Validate() error {
	errs := []error{t.Requests.Validate("requests"), t.validateLater(), t.validateSize()}
	if t.Job != "" {
		errs = append(errs, ValidateName("job", t.Job))
	}
	if t.Name != "" {
		errs = append(errs, ValidateName("name", t.Name))
	}
	if t.Scheduler != "" {
		errs = append(errs, ValidateName("scheduler", t.Scheduler))
	}
	if t.Session != "" {
		errs = append(errs, ValidateName("session", t.Session))
	}
	if n := len(t.Alternatives); n > MaxAlternatives {
		return joinInvalid(nonNil(append(errs, Errorf(Invalid, "alternatives: has %d: at most %d are allowed, drop some", n, MaxAlternatives))))
	}
	for i, a := range t.Alternatives {
		errs = append(errs, a.Requests.Validate(index("alternatives", i)), validateDelay(index("alternatives", i)+".after", a.After))
		if sum := t.Requests.Plus(a.Requests); len(sum) > MaxRequests {
			errs = append(errs, Errorf(Invalid, "%s: asks, with requests, for %d resources: at most %d fit a transaction, ask for fewer", index("alternatives", i), len(sum), MaxRequests))
		}
	}
	errs = append(errs, validateProvides(t.Provides), validateDelay("max run", t.MaxRun), t.validateAccumulate(), t.validateDevices(), t.validateRetries(), ValidateLabels("labels", t.Labels))
	if t.Deadline < 0 {
		errs = append(errs, Errorf(Invalid, "deadline: %d is negative: give the time in Unix nanoseconds, or 0 for none", t.Deadline))
	} else if t.Deadline > MaxMoment {
		errs = append(errs, Errorf(Invalid, "deadline: %d is after 2150: give the time in Unix nanoseconds, or 0 for none", t.Deadline))
	}
	errs = append(errs, validatePriority("priority", t.Priority), validateOnDisconnect(t.OnDisconnect))
	return joinInvalid(nonNil(errs))
}

func validateOnDisconnect(d OnDisconnect) error {
	if d != Fence && d != StopLost && d != Keep {
		return errOnDisconnect(string(d))
	}
	return nil
}

// validateLater checks the fields that change after the submission.
func (t *Task) validateLater() error {
	var p problems
	p.text("spec", t.Spec, MaxText)
	p.name("user", t.User)
	p.moments("submitted", t.Submitted)
	p.stop(t.Stop)
	within(&p, "evict", t.Evict, 0, MaxCount)
	within(&p, "index", t.Index, 0, MaxCount)
	within(&p, "count", t.Count, 0, MaxCount)
	p.add(validateGrace("evict grace", t.EvictGrace))
	if t.Later != nil {
		p.text("evict reason", t.Later.EvictReason, MaxReason)
		p.add(validatePriority("raised", t.Later.Raised), t.Later.Collect.validate(), t.validateDirection())
	}
	return p.err()
}

// validateSize checks the encoded size of a task that may be too large, because the limits of its
// parts allow more than its own.
func (t *Task) validateSize() error {
	vectors := 1 + len(t.Alternatives) + len(t.Provides) + len(t.Devices)
	if (vectors*MaxRequests*2+len(t.Labels)*8)*MaxName < MaxTaskBytes && len(t.Alternatives)*len(t.Devices) == 0 {
		return nil
	}
	if err := validateSize(t, len(Encode(0, t))); err != nil {
		return Errorf(Invalid, "task: %w: ask for fewer resources", err)
	}
	return nil
}

// validateAccumulate checks that the amounts to collect are known, and can be collected.
func (t *Task) validateAccumulate() error {
	switch {
	case !t.Accumulate:
		return nil
	case len(t.Alternatives) > 0:
		return Errorf(Invalid, "accumulate: the task also has alternatives, so the amount to collect is unknown: give one of the two")
	case len(t.Requests) == 0:
		return Errorf(Invalid, "accumulate: the task requests nothing to collect: request something, or leave it out")
	}
	for _, x := range t.Requests {
		if strings.Contains(x.Name, "@") {
			return Errorf(Invalid, "accumulate: %q is held by a reservation already: let the reservation accumulate instead", x.Name)
		}
	}
	return nil
}

func validateProvides(provides []Provide) error {
	var errs []error
	if len(provides) > MaxProvides {
		return Errorf(Invalid, "provides: has %d: at most %d are allowed, drop some", len(provides), MaxProvides)
	}
	seen := make(map[string]bool)
	for i, p := range provides {
		at := index("provides", i)
		errs = append(errs, ValidateEphemeral(at+".name", p.Name))
		switch {
		case p.Amount <= 0:
			errs = append(errs, Errorf(Invalid, "%s.amount: %s is not positive: provide more than 0", at, p.Amount.Format(ResourceID(p.Name))))
		case p.Amount > MaxQuantity && p.Amount != Inf:
			errs = append(errs, Errorf(Invalid, "%s.amount: %d is too large: the largest is %s; inf means no bound", at, p.Amount, MaxQuantity.Format(ResourceID(p.Name))))
		}
		if p.When != WhenBound && p.When != WhenRunning && p.When != WhenHealthy && p.When != WhenSucceeded {
			errs = append(errs, Errorf(Invalid, "%s.when: %q is unknown: use bound, running, healthy or succeeded", at, p.When))
		}
		if seen[p.Name] {
			errs = append(errs, Errorf(Invalid, "%s.name: %q is provided twice: add the amounts up", at, p.Name))
		}
		seen[p.Name] = true
	}
	return joinInvalid(nonNil(errs))
}

// Validate checks a reservation, and lists all problems.
func (r *Reservation) Validate() error {
	var p problems
	if len(r.Bundles) == 0 {
		p.add(Errorf(Invalid, "bundles: is empty: ask for at least one"))
	}
	p.add(r.validateParts(), r.validateSize())
	return p.err()
}

// validateSize checks that a submitted reservation stays readable with what is written into it
// later: a raise, and a node for each bundle to collect on.
func (r *Reservation) validateSize() error {
	requests := 0
	for _, b := range r.Bundles {
		requests += len(b.Requests) + len(b.Devices)*MaxModels
	}
	if later := 64 + len(r.Bundles)*(MaxName+4); requests*2*MaxName+2*later >= MaxMessageBytes {
		if n := len(Encode(0, r)) + later; n > MaxMessageBytes {
			return Errorf(Invalid, "bundles: are %d bytes with what is stored beside them: at most %d are allowed, ask for fewer resources or split the reservation", n, MaxMessageBytes)
		}
	}
	return nil
}

func (r *Reservation) validateParts() error {
	var errs []error
	if n := len(r.Bundles); n > MaxBundles {
		return Errorf(Invalid, "bundles: has %d: at most %d are allowed, split the reservation", n, MaxBundles)
	}
	var p problems
	p.add(validatePriority("priority", r.Priority), validatePriority("raised", r.Raised))
	p.moments("submitted", r.Submitted)
	p.name("session", r.Session)
	p.name("job", r.Job)
	p.name("policy", r.Policy)
	p.add(validateDelay("maxRun", r.MaxRun), r.Collect.validate(), r.validateDirection())
	errs = append(errs, p...)
	if r.Lost != WaitForNode && r.Lost != MoveBundles {
		errs = append(errs, errLostBundles(string(r.Lost)))
	}
	before, fine := Bundle{}, false
	for i, b := range r.Bundles {
		if fine && b.Node == before.Node && len(b.Devices)+len(before.Devices) == 0 && slices.Equal(b.Requests, before.Requests) {
			continue // most gangs have equal bundles
		}
		at, found := index("bundles", i), len(errs)
		errs = append(errs, b.Requests.Validate(at+".requests"))
		if b.Node != "" {
			errs = append(errs, ValidateName(at+".node", b.Node))
		}
		if len(b.Requests) == 0 {
			errs = append(errs, Errorf(Invalid, "%s.requests: is empty: ask for something to lock", at))
		}
		errs = append(errs, validateDevices(at+".devices", b.Devices, namedRequests{at + ".requests", b.Requests}))
		for _, x := range b.Requests {
			if strings.Contains(x.Name, "@") {
				errs = append(errs, Errorf(Invalid, "%s.requests: %q is held by a reservation already: request %q", at, x.Name, strings.Split(x.Name, "@")[0]))
			}
		}
		errs = errs[:found+len(nonNil(errs[found:]))]
		before, fine = b, len(errs) == found
	}
	return joinInvalid(nonNil(errs))
}

// validateDirection checks who directs a reservation, and that its maker names a node for each bundle.
func (r *Reservation) validateDirection() error {
	switch {
	case r.Accumulate && r.HandsOver():
		return Errorf(Invalid, "collect.handOver: is set, but also accumulate: leave out one of the two")
	case !r.Directed():
		return nil
	case len(r.Collect.On) != len(r.Bundles):
		return Errorf(Invalid, "collect.on: has %d nodes for %d bundles: name one for each", len(r.Collect.On), len(r.Bundles))
	}
	for i, node := range r.Collect.On {
		switch {
		case node == "":
			return Errorf(Invalid, "%s: is empty: name the node on which the bundle collects", index("collect.on", i))
		case r.Bundles[i].Node != "" && r.Bundles[i].Node != node:
			return Errorf(Invalid, "%s: is %s, but the bundle is to be on %s: name that", index("collect.on", i), node, r.Bundles[i].Node)
		}
	}
	return nil
}

// validateDirection checks that the task may collect, and does so for itself.
func (t *Task) validateDirection() error {
	switch to := t.Later.Collect; {
	case to != nil && !t.Accumulate:
		return Errorf(Invalid, "accumulate: is false, but collect is set: set both, or leave both out")
	case to != nil && to.HandOver:
		return Errorf(Invalid, "collect.handOver: is set, but a task collects for itself: leave it out")
	}
	return nil
}

// validate checks where something collects; nil is valid.
func (c *Collect) validate() error {
	if c == nil {
		return nil
	}
	var p problems
	p.moments("collect.lendUntil", c.LendUntil)
	if p.count("collect.on", len(c.On), MaxBundles) {
		for i, node := range c.On {
			p.name(index("collect.on", i), node)
		}
	}
	return p.err()
}

func index(field string, i int) string {
	return field + "[" + strconv.Itoa(i) + "]"
}

// validateRetries checks the number of further attempts.
func (t *Task) validateRetries() error {
	if t.Retries < 0 {
		return Errorf(Invalid, "retries: %d is negative: give the number of attempts after failed ones, or 0 for none", t.Retries)
	}
	if t.Retries > MaxCount {
		return Errorf(Invalid, "retries: %d is too large: give at most %d", t.Retries, MaxCount)
	}
	return nil
}
