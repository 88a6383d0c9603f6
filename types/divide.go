package types

import "google.golang.org/protobuf/encoding/protowire"

// Of the values of a large cluster most are alike but for a few fields: the tasks of a
// job, what is bound of one kind. Who keeps millions of them divides a stored value
// into what is its own, and the rest, which is a stored value of the same kind without
// that, and without the id of the transaction: values with the same rest can share
// what it decodes to.

// OwnOfTask is what a task has of its own. Texts are parts of the value.
type OwnOfTask struct {
	Name, Job []byte
	Submitted int64
}

// Divide reads what is a stored task's own, and appends the rest to rest. Internal: the
// value is of another version, or broken; that it can be decoded shows when the rest
// is.
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
		default:
			return false
		}
		return true
	})
}

// Validate checks what a task has of its own.
func (o *OwnOfTask) Validate() error {
	var p problems
	p.bytes("name", o.Name)
	p.bytes("job", o.Job)
	p.moments("submitted", o.Submitted)
	return p.err()
}

// OwnOfStatus is what a status has of its own.
type OwnOfStatus struct {
	Node                  []byte
	Bound, Started, Ended int64
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
			return false
		}
		return true
	})
}

// Validate checks what a status has of its own.
func (o *OwnOfStatus) Validate() error {
	var p problems
	p.bytes("node", o.Node)
	p.moments("bound, started, ended", o.Bound, o.Started, o.Ended)
	return p.err()
}

// OwnOfBinding is what a binding has of its own.
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

// Validate checks what a binding has of its own.
func (o *OwnOfBinding) Validate() error {
	var p problems
	p.revisions("session", o.Session)
	p.moments("bound", o.Bound)
	return p.err()
}

// OwnOfReport is what a report has of its own.
type OwnOfReport struct{ Binding, Started, Ended int64 }

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
			return false
		}
		return true
	})
}

// Validate checks what a report has of its own.
func (o *OwnOfReport) Validate() error {
	var p problems
	p.revisions("binding", o.Binding)
	p.moments("started, ended", o.Started, o.Ended)
	return p.err()
}

// bytes checks a name that may be empty, without a copy of one that is valid.
func (p *problems) bytes(field string, name []byte) {
	if len(name) > 0 && !isName(name) {
		p.add(ValidateName(field, string(name)))
	}
}

// field is one field of a message.
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

// divide appends to rest what own does not take of the fields of a value, but for the
// id of the transaction.
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
		if f.num != batchField && !own(f) {
			rest = append(rest, left[:size]...)
		}
		left = left[size:]
	}
	return rest, nil
}

// next reads the first field of a message, and returns how long it is with its tag, or
// less than 0.
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

// NoMessage keeps what has it, and a message as a part, from being taken for that
// message: the part alone must not be stored.
type NoMessage struct{}

var _ interface{ fields(w *wire) } = NoMessage{}

func (NoMessage) fields(*wire) {}
