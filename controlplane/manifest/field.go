package manifest

import (
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// field is a field of a struct as it is written: what its tags say of it. Both the decoder
// and the schema go by zero, is and keys. The others are what a Validate refuses, too, for
// the schema to refuse it.
type field struct {
	name     string
	index    int
	required bool
	// desc explains it.
	desc string
	// zero says why 0 is refused where it is written; empty: it is not.
	zero string
	// is and keys are what texts it takes, itself, in a list or in a map, and what names those
	// of a map have: see textOf.
	is, keys string
	// min and max are the least and the greatest number that is allowed, of a map those of
	// its values; empty: any.
	min, max string
	// some tells that a list, map or text that is written has something in it.
	some bool
	// or are other fields, of which one says something if this one does not. needs are
	// those that say something if this one does, and without those that say nothing then.
	// Behind = are the values that matter: onLoss=restart|alone.
	or, needs, without []string
}

// fields lists what a struct is written as.
func fields(t reflect.Type) []field {
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, opts, _ := strings.Cut(tag.Get("json"), ",")
		if !t.Field(i).IsExported() || name == "-" {
			continue // nothing that is written
		}
		f := field{
			name: name, index: i, required: opts != "omitempty", desc: tag.Get("desc"),
			zero: tag.Get("zero"), is: tag.Get("is"), keys: tag.Get("keys"), min: tag.Get("min"), max: tag.Get("max"),
			or: strings.Fields(tag.Get("or")), needs: strings.Fields(tag.Get("needs")), without: strings.Fields(tag.Get("without")),
		}
		_, f.some = tag.Lookup("some")
		out = append(out, f)
	}
	return out
}

// isTime reports whether values of a type are times, none of which is negative.
func isTime(t reflect.Type) bool {
	return t == reflect.TypeFor[types.Duration]() || t == reflect.TypeFor[types.Wait]()
}

// keeps checks what is written in a field by what its tags say.
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

// texts is a kind of texts that fields take.
type texts struct {
	// pattern is what they match, and except are those of them that are refused.
	pattern string
	except  []string
	// check says what is wrong with one. The error begins with the field. Nil: that is
	// left to a Validate.
	check func(field, text string) error
}

// textOf returns the texts that tags call by a name: a name, as of jobs; a word, which is a
// name without dots; a path of words; a resource of an application; a physical one, and one
// of these that can be shared; one that is asked for; somebody else's policy; an
// absolute path, or none; an image; a setting of the environment; and a text that is not empty.
func textOf(kind string) texts {
	const (
		name     = `[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?`
		word     = `[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?`
		foreign  = `[A-Za-z0-9][A-Za-z0-9._-]*\.[A-Za-z0-9._-]*[A-Za-z0-9]/` + name
		physical = `^(cpu|memory|disk|gpu|port)$|/`
	)
	switch kind {
	case "name":
		return texts{pattern: "^" + name + "$", check: types.ValidateName}
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
		return texts{pattern: "^((" + name + "|" + foreign + "|port/[0-9]+)(@" + name + ")?|(node|rack|zone)/" + name + ")$"}
	case "foreign":
		return texts{pattern: "^" + foreign + "$"}
	case "absolute":
		return texts{pattern: "^(/|$)"}
	case "image":
		return texts{pattern: `^[^ \t\n]+$`}
	case "text":
		return texts{pattern: `^(.|\n)`, check: notEmpty}
	case "setting":
		return texts{pattern: `^[^=]+=`}
	}
	return texts{}
}

func notEmpty(field, text string) error {
	if text == "" {
		return types.Errorf(types.Invalid, "%s: is empty: give a value", field)
	}
	return nil
}

// validatePath checks words with / between them.
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
