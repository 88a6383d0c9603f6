package manifest

import (
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// field is a field of a struct in its written form, with the rules in its tags. The decoder and the
// schema both enforce zero, is and keys. The others also have a Validate that refuses the value;
// the tags let the schema refuse it too.
type field struct {
	name     string
	index    int
	required bool
	// group reports whether the fields of its value may be written beside it.
	group bool
	// desc explains it.
	desc string
	// zero says why a written 0 is refused; empty means that it is allowed.
	zero string
	// is names the kind of its texts: itself, in a list, or in a map. keys names the kind of the
	// keys of a map. See textOf.
	is, keys string
	// min and max bound the number, or the values of a map; empty means no bound.
	min, max string
	// some reports whether a written list, map or text must not be empty.
	some bool
	// or are other fields: one of them must be set if this one is not. needs are fields that must
	// be set with this one, without those that must not be. The relevant values follow =:
	// onLoss=restart|alone.
	or, needs, without []string
}

// fields lists the written fields of a struct.
func fields(t reflect.Type) []field {
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, opts, _ := strings.Cut(tag.Get("json"), ",")
		if !t.Field(i).IsExported() || name == "-" {
			continue // not written
		}
		f := field{
			name: name, index: i, required: opts != "omitempty" && opts != "omitzero", desc: tag.Get("desc"),
			zero: tag.Get("zero"), is: tag.Get("is"), keys: tag.Get("keys"), min: tag.Get("min"), max: tag.Get("max"),
			or: strings.Fields(tag.Get("or")), needs: strings.Fields(tag.Get("needs")), without: strings.Fields(tag.Get("without")),
		}
		_, f.some = tag.Lookup("some")
		_, f.group = tag.Lookup("group")
		out = append(out, f)
	}
	return out
}

// isTime reports whether values of a type are times, which are never negative.
func isTime(t reflect.Type) bool {
	return t == reflect.TypeFor[types.Duration]() || t == reflect.TypeFor[Wait]()
}

// keeps checks a field's value against the rules of its tags.
func (d *decoder) keeps(f field, n *yaml.Node, v reflect.Value, path string) {
	if f.zero != "" && v.IsZero() {
		d.wrongValue(n, path, "%s %s", n.Value, f.zero)
	}
	text := func(n *yaml.Node, kind, path string) {
		if check := textOf(kind).check; check != nil {
			if err := check(path, n.Value); err != nil {
				d.wrongValue(n, path, "%s", strings.TrimPrefix(err.Error(), path+": "))
			}
		}
	}
	switch n.Kind {
	case yaml.ScalarNode:
		text(n, f.is, path)
	case yaml.SequenceNode:
		for i, c := range n.Content {
			text(c, f.is, path+"["+strconv.Itoa(i)+"]")
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			at := below(path, n.Content[i].Value)
			text(n.Content[i], f.keys, at)
			text(n.Content[i+1], f.is, at)
		}
	}
}

// texts is a kind of texts of fields.
type texts struct {
	// pattern is a pattern that they match; except are matching texts that are refused.
	pattern string
	except  []string
	// check checks one text. Its error begins with the field. nil means that a Validate checks it.
	check func(field, text string) error
}

// NamePattern matches a name, as of jobs.
const NamePattern = `[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?`

// textOf returns the kind of texts for a name in a tag: a name, as of jobs; a shared policy, which may be
// of another namespace; one with its namespace; a word, which is a name
// without dots; the value or key of a label; a path of words; a resource of an application; a
// physical one; a physical one that can be shared; a requested one; a requested one, with or without
// a namespace; one made of devices; another party's policy; an absolute or empty path; an image; a
// limit of processes; a variable, and a setting, of the environment; a script; a non-empty text; a subject;
// a verb and a kind of rights; a namespace, or all.
func textOf(kind string) texts {
	const (
		name     = NamePattern
		word     = `[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?`
		foreign  = `[A-Za-z0-9][A-Za-z0-9._-]*\.[A-Za-z0-9._-]*[A-Za-z0-9]/` + name
		part     = `[a-z0-9]([a-z0-9.-]*[a-z0-9])?`
		physical = `^(cpu|memory|disk|gpu|port)$|/`
		request  = "((" + name + "|" + foreign + "|port/[0-9]+)(@" + name + ")?|(node|rack|zone)/" + name + ")"
	)
	switch kind {
	case "name":
		return texts{pattern: "^" + name + "$", check: types.ValidateName}
	case "shared-policy":
		return texts{pattern: "^(" + name + ":)?" + name + "$", check: validateSharedPolicy}
	case "full-policy":
		return texts{pattern: "^" + name + ":" + name + "$"}
	case "label":
		return texts{pattern: "^(" + name + ")?$", check: types.ValidateLabelValue}
	case "label-key":
		return texts{pattern: "^(" + part + "/)?" + name + "$", check: types.ValidateLabelKey}
	case "resource":
		return texts{pattern: "^" + name + "$", except: []string{"cpu", "memory", "disk", "gpu", "port"}, check: types.ValidateEphemeral}
	case "word":
		return texts{pattern: "^" + word + "$"}
	case "path":
		return texts{pattern: "^" + word + "(/" + word + ")*$", check: validatePath}
	case "physical":
		return texts{pattern: physical}
	case "shared":
		return texts{pattern: physical, except: []string{"port"}}
	case "request":
		return texts{pattern: "^" + request + "$"}
	case "full-request":
		return texts{pattern: "^(" + name + ":)?" + request + "$"}
	case "device":
		return texts{pattern: "^(gpu|" + foreign + ")(@" + name + ")?$"}
	case "foreign":
		return texts{pattern: "^" + foreign + "$"}
	case "absolute":
		return texts{pattern: "^(/|$)"}
	case "image":
		return texts{pattern: `^[^ \t\n]+$`}
	case "text":
		return texts{pattern: `^(.|\n)`, check: notEmpty}
	case "script":
		return texts{pattern: `[^ \t\r\n]`, check: notBlank}
	case "ulimit":
		return texts{pattern: "^(" + strings.Join(types.Ulimits(), "|") + ")$"}
	case "variable":
		return texts{pattern: `^[A-Za-z_][A-Za-z0-9_]{0,254}$`}
	case "setting":
		return texts{pattern: `^[^=]+=`}
	case "subject":
		return texts{pattern: "^(user|group|service):(" + name + "|[A-Za-z0-9][^:]*:.*)$"}
	case "need":
		return texts{pattern: patternOfNeed()}
	case "scope":
		return texts{pattern: `^(\*|` + name + ")$"}
	}
	return texts{}
}

func notEmpty(field, text string) error {
	if text == "" {
		return types.Errorf(types.Invalid, "%s: is empty: give a value", field)
	}
	return nil
}

func notBlank(field, text string) error { return notEmpty(field, strings.Trim(text, " \t\r\n")) }

// validateSharedPolicy checks a name, which may have a namespace.
func validateSharedPolicy(field, text string) error {
	if strings.Contains(text, ":") {
		return ValidateShared(field, text)
	}
	return types.ValidateName(field, text)
}

// validatePath checks words separated by /.
func validatePath(field, text string) error {
	for part := range strings.SplitSeq(text, "/") {
		if strings.Contains(part, ".") {
			return types.Errorf(types.Invalid, "%s: %q contains a dot: use letters, digits, '-' and '_'", field, part)
		}
		if err := types.ValidateName(field, part); err != nil {
			return err
		}
	}
	return nil
}
