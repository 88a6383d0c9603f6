package types

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of what an application may submit.
const (
	// MaxName is the longest name or id, in bytes.
	MaxName = 63
	// MaxSpecBytes bounds an encoded Spec: with its key and a task it must
	// fit the 1.5 MiB that etcd accepts at once.
	MaxSpecBytes = 1 << 20
	// MaxRequests bounds the resources of one vector: every one of them may
	// take a compare of the 128 that a stock etcd allows a transaction.
	MaxRequests = 100
	// MaxProvides bounds what one task provides.
	MaxProvides = 100
	// MaxAlternatives bounds the alternatives of one task.
	MaxAlternatives = 16
	// MaxBundles bounds one reservation.
	MaxBundles = 4096
)

// joinInvalid makes one Invalid error of many, nil of none.
func joinInvalid(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	if err := errors.Join(errs...); err != nil {
		return Errorf(Invalid, "%w", err)
	}
	return nil
}

// ValidateName checks an id or a name that becomes part of a key: letters,
// digits, "-", "_" and ".", at most MaxName bytes, beginning and ending with a
// letter or digit.
func ValidateName(field, name string) error {
	switch {
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

func shorten(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:37], "") + "..."
	}
	return s
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

// validateRequestName checks a name as it may be requested.
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
				return Errorf(Invalid, "%s: %q is no port: write it like port/8080, from 1 to %d", field, name, MaxPort)
			}
			return nil
		}
		if !id.IsPlacement() && !strings.Contains(domain, ".") {
			return Errorf(Invalid, "%s: %q is neither a placement (node/…, rack/…, zone/…), a port (port/8080) nor of a domain (acme.com/…): correct it", field, name)
		}
		if scoped && id.IsPlacement() {
			return Errorf(Invalid, "%s: %q: a placement is not held by reservations: request %q", field, name, base)
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
		errs = append(errs, Errorf(Invalid, "%s: has %d resources: at most %d fit a transaction, ask for fewer", field, len(r), MaxRequests))
	}
	for i, x := range r {
		if validateRequestName("", x.Name) == nil && validateAmount("", x) == nil && (i == 0 || r[i-1].Name < x.Name) {
			continue // as a rule; what is wrong is said with the field
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

// Validate checks a task as it is submitted, all problems at once.
func (t *Task) Validate() error {
	errs := []error{t.Requests.Validate("requests")}
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
		errs = append(errs, Errorf(Invalid, "alternatives: has %d: at most %d are allowed, drop some", n, MaxAlternatives))
	}
	for i, a := range t.Alternatives {
		errs = append(errs, a.Requests.Validate(index("alternatives", i)), validateDelay(index("alternatives", i)+".after", a.After))
		if sum := t.Requests.Plus(a.Requests); len(sum) > MaxRequests {
			errs = append(errs, Errorf(Invalid, "%s: asks, with requests, for %d resources: at most %d fit a transaction, ask for fewer", index("alternatives", i), len(sum), MaxRequests))
		}
	}
	errs = append(errs, validateProvides(t.Provides), validateDelay("max run", t.MaxRun), t.validateAccumulate(), t.validateDevices(), t.validateRetries())
	if t.Deadline < 0 {
		errs = append(errs, Errorf(Invalid, "deadline: %d is negative: give the time in Unix nanoseconds, or 0 for none", t.Deadline))
	}
	if t.OnDisconnect != Fence && t.OnDisconnect != StopLost && t.OnDisconnect != Keep {
		errs = append(errs, errOnDisconnect(string(t.OnDisconnect)))
	}
	return joinInvalid(nonNil(errs))
}

// validateAccumulate checks that it is known what a task is to collect, and that it can.
func (t *Task) validateAccumulate() error {
	switch {
	case !t.Accumulate:
		return nil
	case len(t.Alternatives) > 0:
		return Errorf(Invalid, "accumulate: there are alternatives, and it is not known which of them to collect: give one of the two")
	case len(t.Requests) == 0:
		return Errorf(Invalid, "accumulate: there is nothing to collect: request something, or leave it out")
	}
	for _, x := range t.Requests {
		if strings.Contains(x.Name, "@") {
			return Errorf(Invalid, "accumulate: %q is held by a reservation already: let the reservation accumulate instead", x.Name)
		}
	}
	return nil
}

func validateDelay(field string, d time.Duration) error {
	if d < 0 {
		return Errorf(Invalid, "%s: %s is negative: use 0 or more", field, d)
	}
	return nil
}

func validateProvides(provides []Provide) error {
	var errs []error
	if len(provides) > MaxProvides {
		errs = append(errs, Errorf(Invalid, "provides: has %d: at most %d are allowed, drop some", len(provides), MaxProvides))
	}
	seen := make(map[string]bool)
	for i, p := range provides {
		at := index("provides", i)
		errs = append(errs, ValidateEphemeral(at+".name", p.Name))
		switch {
		case p.Amount <= 0:
			errs = append(errs, Errorf(Invalid, "%s.amount: %s is not positive: provide more than 0", at, p.Amount.Format(ResourceID(p.Name))))
		case p.Amount > MaxQuantity && p.Amount != Inf:
			errs = append(errs, Errorf(Invalid, "%s.amount: %d is too large: the largest is %s; write inf for no bound", at, p.Amount, MaxQuantity.Format(ResourceID(p.Name))))
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

// Validate checks a reservation, all problems at once.
func (r *Reservation) Validate() error {
	var errs []error
	if len(r.Bundles) == 0 {
		errs = append(errs, Errorf(Invalid, "bundles: is empty: ask for at least one"))
	}
	if n := len(r.Bundles); n > MaxBundles {
		errs = append(errs, Errorf(Invalid, "bundles: has %d: at most %d are allowed, split the reservation", n, MaxBundles))
	}
	if r.Lost != WaitForNode && r.Lost != MoveBundles {
		errs = append(errs, errLostBundles(string(r.Lost)))
	}
	errs = append(errs, r.validateAtOnce())
	before, fine := Bundle{}, false
	for i, b := range r.Bundles {
		if fine && b.Node == before.Node && len(b.Devices)+len(before.Devices) == 0 && slices.Equal(b.Requests, before.Requests) {
			continue // as in most gangs
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

// validateAtOnce checks what collects at once: it may accumulate, and names its nodes.
func (r *Reservation) validateAtOnce() error {
	switch {
	case !r.AtOnce && r.ForItself:
		return Errorf(Invalid, "atOnce: is false, and it is to collect for itself: set it, or leave that out")
	case !r.AtOnce:
		return nil
	case !r.Accumulate:
		return Errorf(Invalid, "accumulate: is false, and it is to collect at once: set it, or leave that out")
	}
	if i := slices.IndexFunc(r.Bundles, func(b Bundle) bool { return b.Node == "" }); i >= 0 {
		return Errorf(Invalid, "%s.node: is empty, and what collects at once says where: name a node", index("bundles", i))
	}
	return nil
}

func index(field string, i int) string {
	return field + "[" + strconv.Itoa(i) + "]"
}
