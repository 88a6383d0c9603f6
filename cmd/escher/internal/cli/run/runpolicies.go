package run

import (
	"errors"
	"maps"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// PolicyFlags are the flags that add policies to the tasks.
type PolicyFlags struct {
	// Notices are about former names. Policies sets them.
	Notices []string

	flags  *pflag.FlagSet
	others []string
}

// Add adds the flags of all kinds of policies to a command.
func (p *PolicyFlags) Add(flags *pflag.FlagSet) {
	p.flags = flags
	for _, kind := range builtin.Policies() {
		for f := range esl.Describe(kind).AllFlags() {
			switch {
			case f.Usage == "": // a flag of another kind, too, with its usage
			case f.Number != nil:
				flags.Int(f.Name, 0, f.Usage)
			case f.Time != nil:
				flags.Duration(f.Name, 0, f.Usage)
			case f.Text != nil:
				flags.String(f.Name, "", f.Usage)
			case f.Texts != nil:
				flags.StringArray(f.Name, nil, f.Usage)
			default:
				flags.Bool(f.Name, false, f.Usage)
			}
		}
	}
	flags.StringArrayVar(&p.others, "policy", nil, "NAME or NAME={JSON}: any policy with its parameters; repeat for several")
}

// count returns the number of tasks that a flag of a policy gives, and its name; 0 means none does.
func (p *PolicyFlags) count() (n int, flag string) {
	for _, kind := range builtin.Policies() {
		for _, f := range esl.Describe(kind).Flags {
			if f.CountsTasks && p.flags.Changed(f.Name) {
				n, _ = p.flags.GetInt(f.Name)
				return n, f.Name
			}
		}
	}
	return 0, ""
}

// Policies makes the policies of the flags, in the order of their kinds.
func (p *PolicyFlags) Policies() ([]esl.Policy, error) {
	m := policyMaker{flags: p.flags, known: library.KnownPolicies(), used: make(map[string]bool)}
	kinds := builtin.Policies()
	for _, kind := range kinds {
		m.refuseEmpty(esl.Describe(kind))
	}
	for _, kind := range kinds {
		for _, f := range esl.Describe(kind).Flags {
			m.add(kind, f)
		}
	}
	for _, kind := range kinds {
		m.refuseAlone(esl.Describe(kind))
	}
	for _, text := range p.others {
		m.made(manifest.ReadPolicy(text, m.known))
	}
	p.Notices = m.notices
	return m.policies, errors.Join(m.errs...)
}

// policyMaker makes policies of flags, and continues after an error.
type policyMaker struct {
	flags    *pflag.FlagSet
	known    manifest.Policies
	used     map[string]bool
	policies []esl.Policy
	notices  []string
	errs     []error
}

func (m *policyMaker) fail(format string, args ...any) {
	m.errs = append(m.errs, types.Errorf(types.Invalid, format, args...))
}

// refuseEmpty refuses flags with an empty value, such as that of an unset variable: tasks must not
// begin without the policy that was meant.
func (m *policyMaker) refuseEmpty(d esl.Description) {
	for f := range d.AllFlags() {
		if f.Text != nil && m.given(f) && m.flags.Lookup(f.Name).Value.String() == "" {
			m.used[f.Name] = true
			m.fail("%s: %q says nothing: give --%s a value, or leave it out", f.Name, "", f.Name)
		}
	}
}

// refuseAlone refuses flags that need another one, which is not given.
func (m *policyMaker) refuseAlone(d esl.Description) {
	for f := range d.AllFlags() {
		if f.Alone != "" && m.given(f) {
			m.fail("%s: %s", f.Name, f.Alone)
		}
	}
}

// given reports whether a flag is given, even as 0, and no policy has used it.
func (m *policyMaker) given(f esl.Flag) bool { return m.flags.Changed(f.Name) && !m.used[f.Name] }

// add makes the policy of a flag, if it is given and fits the kind. A flag of a kind that is only
// declared makes a use of it.
func (m *policyMaker) add(kind esl.Policy, f esl.Flag) {
	before := len(m.errs)
	with, ok := m.parameters(f)
	if !ok {
		return
	}
	for _, further := range f.With {
		if more, ok := m.parameters(further); ok {
			maps.Copy(with, more)
		}
	}
	if len(m.errs) > before {
		return
	}
	name := kind.Kind()
	if esl.Describe(kind).OnlyDeclared {
		name, with["of"] = esl.Use{}.Kind(), name
	}
	m.made(manifest.MakePolicy(name, with, m.known))
}

// parameters returns the parameters that a flag stands for, none if it is wrong. ok is false if it
// is not given, or does not fit.
func (m *policyMaker) parameters(f esl.Flag) (with esl.Parameters, ok bool) {
	if !m.given(f) {
		return nil, false
	}
	var err error
	switch {
	case f.Number != nil:
		n, _ := m.flags.GetInt(f.Name)
		with, err = f.Number(n)
	case f.Time != nil:
		d, _ := m.flags.GetDuration(f.Name)
		with, err = f.Time(d)
	case f.Text != nil:
		text, _ := m.flags.GetString(f.Name)
		with, err = f.Text(text)
	case f.Texts != nil:
		list := m.flags.Lookup(f.Name).Value.(pflag.SliceValue) // GetStringArray drops an empty text
		with, err = f.Texts(list.GetSlice())
	default:
		if on, _ := m.flags.GetBool(f.Name); on {
			with = esl.Parameters{}
			maps.Copy(with, f.Switch)
		}
	}
	if err != nil {
		m.errs = append(m.errs, err)
		with = esl.Parameters{}
	}
	m.used[f.Name] = with != nil
	return with, with != nil
}

// made adds a policy, or the error that it is wrong.
func (m *policyMaker) made(p manifest.Policy, notice string, err error) {
	if err != nil {
		m.fail("policy %w", err)
		return
	}
	if notice != "" {
		m.notices = append(m.notices, notice)
	}
	m.policies = append(m.policies, apply.PolicyOf(p))
}
