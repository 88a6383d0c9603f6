package types

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/types/wire"
)

// Most values of a large cluster differ in a few fields only: those of tasks of one job, or of
// bindings of one kind. A reader that keeps millions of them divides each stored value into its own
// fields and the rest. The rest is a stored value of the same kind without those fields and without
// the transaction id. Values with the same rest share what it decodes to.

// OwnOfTask has the fields that distinguish a task from its siblings. Its texts are parts of the
// stored value.
type OwnOfTask struct {
	Name, Job []byte
	Submitted int64
	Index     int64
}

// Divide reads the own fields of a stored task, and appends the rest to rest. Internal: the value
// has another version, or is broken; decoding the rest shows whether it is valid.
func (o *OwnOfTask) Divide(value, rest []byte) ([]byte, error) {
	*o = OwnOfTask{}
	return divide(value, rest, func(f field) bool {
		switch {
		case f.text(2):
			o.Name = f.bytes
		case f.text(3):
			o.Job = f.bytes
		case f.integer(9):
			o.Submitted = int64(f.varint)
		case f.integer(23):
			o.Index = int64(f.varint)
		default:
			return false
		}
		return true
	})
}

// Validate checks the own fields of a task.
func (o *OwnOfTask) Validate() error {
	var p problems
	p.bytes("name", o.Name)
	p.bytes("job", o.Job)
	p.moments("submitted", o.Submitted)
	within(&p, "index", o.Index, 0, MaxCount)
	return p.err()
}

// OwnOfStatus has the fields that distinguish a status from others.
type OwnOfStatus struct {
	Node                  []byte
	Bound, Started, Ended int64
	Used                  Used
}

// Divide is like OwnOfTask.Divide.
func (o *OwnOfStatus) Divide(value, rest []byte) ([]byte, error) {
	*o = OwnOfStatus{}
	return divide(value, rest, func(f field) bool {
		switch {
		case f.text(3):
			o.Node = f.bytes
		case f.integer(5):
			o.Bound = int64(f.varint)
		case f.integer(6):
			o.Started = int64(f.varint)
		case f.integer(7):
			o.Ended = int64(f.varint)
		default:
			return o.Used.divide(f)
		}
		return true
	})
}

// Validate checks the own fields of a status.
func (o *OwnOfStatus) Validate() error {
	var p problems
	p.bytes("node", o.Node)
	p.moments("bound, started, ended", o.Bound, o.Started, o.Ended)
	o.Used.validate(&p)
	return p.err()
}

// OwnOfBinding has the fields that distinguish a binding from others.
type OwnOfBinding struct{ Session, Bound int64 }

// Divide is like OwnOfTask.Divide.
func (o *OwnOfBinding) Divide(value, rest []byte) ([]byte, error) {
	*o = OwnOfBinding{}
	return divide(value, rest, func(f field) bool {
		switch {
		case f.integer(2):
			o.Session = int64(f.varint)
		case f.integer(7):
			o.Bound = int64(f.varint)
		default:
			return false
		}
		return true
	})
}

// Validate checks the own fields of a binding.
func (o *OwnOfBinding) Validate() error {
	var p problems
	p.revisions("session", o.Session)
	p.moments("bound", o.Bound)
	return p.err()
}

// OwnOfReport has the fields that distinguish a report from others.
type OwnOfReport struct {
	Binding, Started, Ended int64
	Used                    Used
}

// Divide is like OwnOfTask.Divide.
func (o *OwnOfReport) Divide(value, rest []byte) ([]byte, error) {
	*o = OwnOfReport{}
	return divide(value, rest, func(f field) bool {
		switch {
		case f.integer(3):
			o.Binding = int64(f.varint)
		case f.integer(4):
			o.Started = int64(f.varint)
		case f.integer(5):
			o.Ended = int64(f.varint)
		default:
			return o.Used.divide(f)
		}
		return true
	})
}

// Validate checks the own fields of a report.
func (o *OwnOfReport) Validate() error {
	var p problems
	p.revisions("binding", o.Binding)
	p.moments("started, ended", o.Started, o.Ended)
	o.Used.validate(&p)
	return p.err()
}

// divide reads a field of a status or a report; false if it is none of these.
func (u *Used) divide(f field) bool {
	switch {
	case f.integer(21):
		u.CPU = Quantity(f.varint)
	case f.integer(22):
		u.Memory = Quantity(f.varint)
	default:
		return false
	}
	return true
}

// bytes checks an optional name, without a copy of a valid one.
func (p *problems) bytes(field string, name []byte) {
	if len(name) > 0 && !isName(name) {
		p.add(ValidateName(field, string(name)))
	}
}

// field is one field of an encoded message.
type field struct {
	num    protowire.Number
	typ    protowire.Type
	varint uint64
	bytes  []byte
}

func (f *field) text(num protowire.Number) bool {
	return f.num == num && f.typ == protowire.BytesType
}

func (f *field) integer(num protowire.Number) bool {
	return f.num == num && f.typ == protowire.VarintType
}

// divide appends to rest the fields of a value that own refuses, without the transaction id.
func divide(value, rest []byte, own func(field) bool) ([]byte, error) {
	if len(value) == 0 || value[0] != wireVersion {
		return nil, Errorf(Internal, "not a value of version %d", wireVersion)
	}
	rest = append(rest, wireVersion)
	for left := value[1:]; len(left) > 0; {
		f, size := next(left)
		if size < 0 {
			return nil, Errorf(Internal, "not a value: %w", protowire.ParseError(size))
		}
		if f.num != wire.Batch && !own(f) {
			rest = append(rest, left[:size]...)
		}
		left = left[size:]
	}
	return rest, nil
}

// next reads the first field of a message. size is its length with its tag, negative if it is
// broken.
func next(data []byte) (f field, size int) {
	num, typ, tag := protowire.ConsumeTag(data)
	if tag < 0 {
		return field{}, tag
	}
	f.num, f.typ = num, typ
	switch typ {
	case protowire.VarintType:
		f.varint, size = protowire.ConsumeVarint(data[tag:])
	case protowire.BytesType:
		f.bytes, size = protowire.ConsumeBytes(data[tag:])
	default:
		size = protowire.ConsumeFieldValue(num, typ, data[tag:])
	}
	if size < 0 {
		return field{}, size
	}
	return f, tag + size
}

// NoMessage prevents a type that embeds a message from being a message itself: only the whole may
// be stored.
type NoMessage struct{}

var _ interface{ fields(w *wire.Pass) } = NoMessage{}

func (NoMessage) fields(*wire.Pass) {}
