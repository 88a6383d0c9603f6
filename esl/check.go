package esl

import "github.com/escher-sched/escher/types"

// InvalidIf is Invalid if wrong, and nil else: a line of Validate.
func InvalidIf(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return Invalid(format, args...)
}

// SharedOnly is the error of Apply of a shared policy, as jobs take part by Use.
func SharedOnly(kind string) error {
	return Invalid("name: %s is shared: declare it under a name of its own, and have jobs use it by that name", kind)
}

// CheckMade refuses the value of a field from which a name is made that is too long.
func CheckMade(field, value, name string) error {
	over := len(name) - types.MaxName
	return InvalidIf(over > 0, "%s: %q is too long: what this policy makes of it would be called %s, which has %d bytes more than allowed: at most %d are allowed, shorten it", field, value, name, over, types.MaxName)
}
