package run

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/policy"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// PolicyFlags are the policies of the tasks.
type PolicyFlags struct {
	gang, perNode, maxSkew         int
	elastic                        int
	apart, balance, pack, migrate  bool
	preempt, stay                  bool
	ageing                         time.Duration
	onLoss, together, with, spread string
	share, queue, semaphore, near  string
	nearWait                       time.Duration
	after, prefer, others          []string

	// given are the flags, to know which are given.
	given *pflag.FlagSet
}

func (p *PolicyFlags) Add(flags *pflag.FlagSet) {
	p.given = flags
	flags.IntVar(&p.gang, "gang", 0, "so many tasks, all placed at once or none")
	flags.IntVar(&p.elastic, "elastic", 0, "of the --count tasks, at least so many, at once or none; the others while nobody else waits for the room")
	flags.StringVar(&p.onLoss, "on-loss", "", "when one of a gang, or of tasks that are together, is lost: fail, restart or alone")
	flags.IntVar(&p.perNode, "per-node", 0, "how many of a gang are together on each node; of --apart, how many may be")
	flags.BoolVar(&p.apart, "apart", false, "no two of the tasks on one node")
	flags.StringVar(&p.together, "together", "", "all tasks in one node, rack or zone")
	flags.StringVar(&p.with, "colocate-with", "", "on the node of this task or job, by its id or name")
	flags.StringVar(&p.spread, "spread", "", "spread the tasks over node, rack or zone")
	flags.IntVar(&p.maxSkew, "max-skew", 0, "of --spread, how many more tasks one may have than another; 1 if it is left out")
	flags.BoolVar(&p.balance, "balance", false, "as many of the tasks on each node")
	flags.BoolVar(&p.pack, "pack", false, "on as few nodes as will do")
	flags.BoolVar(&p.migrate, "migrate", false, "move them onto fewer nodes when there is room; they save what they need when told to end")
	flags.BoolVar(&p.preempt, "preempt", false, "evict tasks of lower --priority of the namespace if it would fit then; they run again later")
	flags.BoolVar(&p.stay, "stay", false, "not to be evicted for others of higher priority")
	flags.DurationVar(&p.ageing, "ageing", 0, "while it waits, count its priority one higher for each so long, up to 10 higher")
	flags.StringVar(&p.share, "share", "", "SHARES/USER, with teams SHARES/TEAM/USER: of a fair share that is declared, whose part it is")
	flags.StringVar(&p.queue, "queue", "", "NAME[/FLOW]: the queue, or fair queue, that is declared, to wait in")
	flags.StringVar(&p.semaphore, "semaphore", "", "NAME[=AMOUNT]: the semaphore that is declared, and how much of it each task holds")
	flags.StringArrayVar(&p.after, "after", nil, "begin when all tasks of this job, or this task, by id or name, have succeeded; repeat for several")
	flags.StringVar(&p.near, "near", "", "where this data is: it is a resource of the nodes that have it")
	flags.DurationVar(&p.nearWait, "near-wait", 0, "of --near, after how long anywhere; never if it is left out, at once if it is 0s")
	flags.StringArrayVar(&p.prefer, "prefer", nil, "node/N, rack/R, zone/Z, label/NAME=VALUE or RESOURCE=AMOUNT[,…][,after=3s]: a place, the best first; anywhere[,after=3s] comes last; repeat for several")
	flags.StringArrayVar(&p.others, "policy", nil, "NAME or NAME={JSON}: any policy with its parameters; repeat for several")
}

// parameters are those of a policy by the names of their fields.
type parameters map[string]any

// set sets a field to a text, unless that is empty.
func (p parameters) set(name, text string) parameters {
	if text != "" {
		p[name] = text
	}
	return p
}

// wrote reports whether a flag is given, even as 0.
func (p *PolicyFlags) wrote(flag string) bool { return p.given != nil && p.given.Changed(flag) }

// taking sets a field to the value of a flag, if that is given.
func (p *PolicyFlags) taking(with parameters, name, flag string, value any) parameters {
	if p.wrote(flag) {
		with[name] = value
	}
	return with
}

// Policies makes the policies of the flags, in the order of the flags.
func (p *PolicyFlags) Policies() ([]types.Policy, error) {
	m := policyMaker{known: policy.KnownPolicies()}
	m.fail(p.empty())
	m.fail(p.loose())
	switch {
	case p.gang != 0:
		m.Add("gang", p.taking(parameters{}, "perNode", "per-node", p.perNode).set("in", p.together).set("onLoss", p.onLoss))
	case p.together != "":
		m.Add("colocate", parameters{}.set("in", p.together).set("onLoss", p.onLoss))
	}
	if p.wrote("elastic") && p.elastic >= 0 {
		m.Add("elastic", parameters{"min": p.elastic})
	}
	if p.with != "" {
		m.Add("colocate", parameters{"with": p.with})
	}
	if p.apart {
		apart := parameters{}
		if p.gang == 0 {
			p.taking(apart, "perNode", "per-node", p.perNode)
		}
		m.Add("apart", apart)
	}
	if p.spread != "" {
		m.Add("spread", p.taking(parameters{"over": p.spread}, "maxSkew", "max-skew", p.maxSkew))
	}
	if p.balance {
		m.Add("balance", nil)
	}
	if p.pack {
		m.Add("pack", nil)
	}
	if p.migrate {
		m.Add("migrate", nil)
	}
	p.ranked(&m)
	if p.near != "" {
		m.Add("near", p.taking(parameters{"to": p.near}, "wait", "near-wait", p.nearWait.String()))
	}
	p.preferring(&m)
	if p.queue != "" {
		if in, as, flow := strings.Cut(p.queue, "/"); flow {
			m.Add("flow", parameters{"in": in, "as": as})
		} else {
			m.Add("queued", parameters{"in": in})
		}
	}
	if p.semaphore != "" {
		with, err := held(p.semaphore)
		m.fail(err)
		m.Add("holds", with)
	}
	if p.share != "" {
		in, as, _ := strings.Cut(p.share, "/")
		if as != "" {
			m.Add("share", parameters{"in": in, "as": as})
		} else {
			m.fail(types.Errorf(types.Invalid, "share: %q names nobody: write %s/alice, or %s/TEAM/alice", p.share, in, in))
		}
	}
	if len(p.after) > 0 {
		m.Add("after", parameters{"jobs": p.after})
	}
	for _, text := range p.others {
		m.read(text)
	}
	return m.made, errors.Join(m.errs...)
}

// preferring makes the policy of the flags for preferred places.
func (p *PolicyFlags) preferring(m *policyMaker) {
	with, err := preferred(p.prefer)
	switch {
	case err != nil:
		m.fail(err)
	case len(p.prefer) > 0:
		m.Add("prefer", with)
	}
}

// ranked makes the policies of the flags for the order of tasks.
func (p *PolicyFlags) ranked(m *policyMaker) {
	if p.preempt {
		m.Add("preempt", nil)
	}
	if p.stay {
		m.Add("stay", nil)
	}
	if p.ageing != 0 {
		m.Add("ageing", parameters{"every": p.ageing.String()})
	}
}

// empty finds flags with an empty value, such as that of an unset variable: tasks must not begin
// without the policy that was meant.
func (p *PolicyFlags) empty() error {
	if p.given == nil {
		return nil
	}
	var errs []error
	for _, name := range []string{"on-loss", "together", "colocate-with", "spread", "share", "queue", "semaphore", "near"} {
		if f := p.given.Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			errs = append(errs, types.Errorf(types.Invalid, "%s: %q says nothing: give --%s a value, or leave it out", name, "", name))
		}
	}
	if p.ageing == 0 && p.given.Changed("ageing") {
		errs = append(errs, types.Errorf(types.Invalid, "ageing: 0s is no time: give how long a task waits for its priority to count one higher, or leave --ageing out"))
	}
	return errors.Join(errs...)
}

// loose finds flags that need another flag that is not given.
func (p *PolicyFlags) loose() error {
	switch {
	case p.gang < 0:
		return types.Errorf(types.Invalid, "gang: %d is negative: give how many tasks are placed at once", p.gang)
	case p.gang == 0 && p.wrote("gang"):
		return types.Errorf(types.Invalid, "gang: 0 tasks are none: give how many are placed at once, or leave --gang out")
	case p.elastic < 0:
		return types.Errorf(types.Invalid, "elastic: %d is negative: give how many of the tasks run at least", p.elastic)
	case p.wrote("max-skew") && p.spread == "":
		return types.Errorf(types.Invalid, "max-skew: is given, and nothing is spread: give --spread node, --spread rack or --spread zone too")
	case p.wrote("per-node") && p.gang == 0 && !p.apart:
		return types.Errorf(types.Invalid, "per-node: is given without --gang or --apart: say which it is of")
	case p.wrote("near-wait") && p.near == "":
		return types.Errorf(types.Invalid, "near-wait: is given without --near: name the data")
	case p.onLoss != "" && p.gang == 0 && p.together == "":
		return types.Errorf(types.Invalid, "on-loss: is given without --gang or --together: say which it is of; --restart is about one task")
	}
	return nil
}

// held reads NAME[=AMOUNT].
func held(text string) (parameters, error) {
	name, amount, given := strings.Cut(text, "=")
	with := parameters{"semaphore": name}
	if !given {
		return with, nil
	}
	n, err := strconv.Atoi(amount)
	if err != nil || n < 1 {
		return with, types.Errorf(types.Invalid, "semaphore: %q is no amount: write NAME, or NAME=2", amount)
	}
	with["amount"] = n
	return with, nil
}

// preferred reads places, the best first.
func preferred(texts []string) (parameters, error) {
	with := parameters{}
	var of []parameters
	for i, text := range texts {
		choice := parameters{}
		for part := range strings.SplitSeq(text, ",") {
			if err := choice.Place(part, text); err != nil {
				return with, err
			}
		}
		after := choice["after"]
		if choice["anywhere"] == nil {
			of = append(of, choice)
			continue
		}
		delete(choice, "after")
		switch {
		case len(choice) > 1:
			return with, types.Errorf(types.Invalid, "prefer: %q: anywhere is any place, and the rest says which: give anywhere by a --prefer of its own, the last", text)
		case i < len(texts)-1:
			return with, types.Errorf(types.Invalid, "prefer: anywhere is any place, and %q follows: give it last", texts[i+1])
		case i == 0:
			return with, types.Errorf(types.Invalid, "prefer: anywhere prefers no place: give one before it, such as --prefer rack/r1, or leave --prefer out")
		case after != nil:
			with["anywhere"] = after
		default:
			with["anywhere"] = "0s"
		}
	}
	with["of"] = of
	return with, nil
}

// Place adds a part of a place; text is the whole place.
func (p parameters) Place(part, text string) error {
	kind, value, _ := strings.Cut(part, "/")
	key, amount, assigned := strings.Cut(part, "=")
	field, in := kind, p
	switch {
	case part == "anywhere":
		value = part
	case key == "after" && assigned:
		field, value = key, amount
	case (kind == "node" || kind == "rack" || kind == "zone") && value != "":
	case kind == "label" && assigned:
		field, value, in = strings.TrimPrefix(key, "label/"), amount, p.into("labels")
	case assigned && key != "":
		field, value, in = key, amount, p.into("requests")
	default:
		return types.Errorf(types.Invalid, "prefer: %q is no place: write node/N, rack/R, zone/Z, label/NAME=VALUE, RESOURCE=AMOUNT or anywhere, and ,after=3s", part)
	}
	if in[field] != nil {
		return types.Errorf(types.Invalid, "prefer: %q: %s is there twice: drop one, or repeat --prefer for another place", text, field)
	}
	in[field] = value
	return nil
}

// into returns the fields of a field.
func (p parameters) into(field string) parameters {
	if p[field] == nil {
		p[field] = parameters{}
	}
	return p[field].(parameters)
}

// policyMaker makes policies, and continues after an error.
type policyMaker struct {
	known manifest.Policies
	made  []types.Policy
	errs  []error
}

func (m *policyMaker) fail(err error) {
	if err != nil {
		m.errs = append(m.errs, err)
	}
}

func (m *policyMaker) Add(name string, with parameters) {
	text, err := json.Marshal(with)
	if len(with) == 0 || err != nil {
		m.fail(err)
		m.read(name)
		return
	}
	m.read(name + "=" + string(text))
}

func (m *policyMaker) read(text string) {
	p, err := manifest.ReadPolicy(text, m.known)
	if err != nil {
		m.errs = append(m.errs, types.Errorf(types.Invalid, "policy %w", err))
		return
	}
	m.made = append(m.made, p.Stored())
}
