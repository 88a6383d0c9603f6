package types

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/types/wire"
)

// A value is a version byte followed by a Protocol Buffers message of the schema in schema/escher.proto.
// One method describes each message by visiting its fields in ascending order of their numbers. The
// same description encodes and decodes, without reflection or generated code. Fields unknown to
// this version are kept and written back.

// wireVersion is the first byte of every value.
const wireVersion = 1

// A Message can be stored under a key.
type Message interface {
	// fields visits every field, in ascending order of numbers, from 2.
	fields(w *wire.Pass)
	// extra returns the storage of unknown fields.
	extra() *Extra
	// Validate checks the message against the table of limits. The error is Invalid and lists all
	// problems, each with field, value and remedy.
	Validate() error
}

// Extra stores the fields of a message that this version does not know.
type Extra struct{ raw string }

func (e *Extra) extra() *Extra { return e }

// Encode returns the value to store for m, marked as written by batch.
func Encode(batch uint64, m Message) []byte {
	return AppendEncode(make([]byte, 0, 128), batch, m)
}

// AppendEncode appends the result of Encode to buf.
func AppendEncode(buf []byte, batch uint64, m Message) []byte {
	buf = protowire.AppendTag(append(buf, wireVersion), wire.Batch, protowire.Fixed64Type)
	w := wire.Append(protowire.AppendFixed64(buf, batch))
	m.fields(&w)
	return append(w.Encoded(), m.extra().raw...)
}

// Decode decodes a stored value into m and validates it, because stored values are not trusted.
// Internal: it is no valid value of this schema. The reader then treats the key as absent and
// continues.
func Decode(value []byte, m Message) error {
	if err := validateSize(m, len(value)); err != nil {
		return Errorf(Internal, "decode %T: %w", m, err)
	}
	if err := Parse(value, m); err != nil {
		return err
	}
	validate := m.Validate
	if e, ok := m.(emptiable); ok {
		validate = e.validateParts
	}
	if err := validate(); err != nil {
		return Errorf(Internal, "decode %T: %w", m, err)
	}
	return nil
}

// emptiable is a message that is refused when it is submitted empty, and harmless when it is stored
// empty.
type emptiable interface{ validateParts() error }

// Parse is Decode without validation, for an audit that looks for invalid values.
func Parse(value []byte, m Message) error {
	if len(value) == 0 || value[0] != wireVersion {
		return Errorf(Internal, "decode %T: not a value of version %d", m, wireVersion)
	}
	raw, err := wire.Decode(value[1:], m.fields)
	if err != nil {
		return Errorf(Internal, "decode %T: %w", m, err)
	}
	m.extra().raw = string(raw)
	return nil
}

// Batch returns the id of the transaction that wrote value, 0 if it has none.
func Batch(value []byte) uint64 {
	if len(value) < 2 {
		return 0
	}
	num, typ, n := protowire.ConsumeTag(value[1:])
	if n < 0 || num != wire.Batch || typ != protowire.Fixed64Type {
		return 0
	}
	id, _ := protowire.ConsumeFixed64(value[1+n:])
	return id
}

// Same reports whether a stored value equals the encoding of m, whatever its transaction. It may be
// false for a value that decodes to the same message.
func Same(value []byte, m Message) bool {
	return bytes.Equal(value, Encode(Batch(value), m))
}
