package types

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A value is a version byte followed by a Protocol Buffers message of the schema in escher.proto.
// One method describes each message by visiting its fields in ascending order of their numbers. The
// same description encodes and decodes, without reflection or generated code. Fields unknown to
// this version are kept and written back.

// wireVersion is the first byte of every value.
const wireVersion = 1

// batchField is the number of the transaction id, in every message. A writer recognizes its own
// unanswered commit by it.
const batchField = 1

// A Message can be stored under a key.
type Message interface {
	// fields visits every field, in ascending order of numbers, from 2.
	fields(w *wire)
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
	w := wire{buf: append(buf, wireVersion)}
	w.buf = protowire.AppendTag(w.buf, batchField, protowire.Fixed64Type)
	w.buf = protowire.AppendFixed64(w.buf, batch)
	m.fields(&w)
	return append(w.buf, m.extra().raw...)
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
	raw, err := decodeFields(value[1:], m.fields)
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
	if n < 0 || num != batchField || typ != protowire.Fixed64Type {
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

// wire is one pass over the fields of one message, encoding or decoding.
type wire struct {
	buf      []byte // encoding: the output; decoding: the rest of the input
	decoding bool
	last     protowire.Number // the field visited last
	next     protowire.Number // decoding: the field that buf begins with, or 0
	typ      protowire.Type   // of next
	tagLen   int              // of next
	unknown  []byte
	err      error
}

// decodeFields runs passes over buf until it is consumed. Encoders write fields in ascending order,
// which takes one pass, but any order is accepted.
func decodeFields(buf []byte, fields func(*wire)) (unknown []byte, err error) {
	w := wire{decoding: true, buf: buf}
	w.decode(fields)
	return w.unknown, w.err
}

// decode is decodeFields for the rest of buf.
func (w *wire) decode(fields func(*wire)) {
	w.peek()
	for {
		before := len(w.buf)
		w.last = 0
		fields(w)
		if w.err != nil || len(w.buf) == 0 {
			return
		}
		if len(w.buf) == before || w.next > w.last {
			w.keep()
		}
	}
}

// peek reads the tag at the start of buf.
func (w *wire) peek() {
	w.next = 0
	if len(w.buf) == 0 {
		return
	}
	num, typ, n := protowire.ConsumeTag(w.buf)
	if n < 0 {
		w.fail(n)
		return
	}
	w.next, w.typ, w.tagLen = num, typ, n
}

// fail ends the pass with the error of a Consume function.
func (w *wire) fail(n int) {
	if w.err == nil {
		w.err = protowire.ParseError(n)
	}
	w.buf, w.next = nil, 0
}

// keep moves the next field to the unknown ones.
func (w *wire) keep() {
	if w.next == 0 {
		return
	}
	n := protowire.ConsumeFieldValue(w.next, w.typ, w.buf[w.tagLen:])
	if n < 0 {
		w.fail(n)
		return
	}
	n += w.tagLen
	w.unknown = append(w.unknown, w.buf[:n]...)
	w.buf = w.buf[n:]
	w.peek()
}

// at reports whether the next field is num of the given type. It moves fields in between to the
// unknown ones.
func (w *wire) at(num protowire.Number, typ protowire.Type) bool {
	for w.next > w.last && w.next < num || w.next == num && w.typ != typ || w.next == batchField && num != batchField {
		if w.next == batchField {
			w.skip()
			continue
		}
		w.keep()
	}
	w.last = num
	return w.next == num
}

// skip drops the next field.
func (w *wire) skip() {
	n := protowire.ConsumeFieldValue(w.next, w.typ, w.buf[w.tagLen:])
	if n < 0 {
		w.fail(n)
		return
	}
	w.advance(w.tagLen + n)
}

func (w *wire) advance(n int) {
	w.buf = w.buf[n:]
	w.peek()
}

// varint visits an unsigned field.
func (w *wire) varint(num protowire.Number, v uint64) uint64 {
	if !w.decoding {
		if v != 0 {
			w.buf = protowire.AppendTag(w.buf, num, protowire.VarintType)
			w.buf = protowire.AppendVarint(w.buf, v)
		}
		return v
	}
	for w.at(num, protowire.VarintType) {
		x, n := protowire.ConsumeVarint(w.buf[w.tagLen:])
		if n < 0 {
			w.fail(n)
			return v
		}
		v = x
		w.advance(w.tagLen + n)
	}
	return v
}

// integer visits an int64 field (Protocol Buffers' int64) or a field with such a type.
func integer[T ~int | ~int32 | ~int64](w *wire, num protowire.Number, v *T) {
	// Encoding does not write to the message, which others may be encoding too.
	if n := w.varint(num, uint64(int64(*v))); w.decoding {
		*v = T(n)
	}
}

// boolean visits a bool field.
func (w *wire) boolean(num protowire.Number, v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	if n = w.varint(num, n); w.decoding {
		*v = n != 0
	}
}

// text visits a string field or a field with such a type.
func text[T ~string](w *wire, num protowire.Number, v *T) {
	if !w.decoding {
		if *v != "" {
			w.buf = protowire.AppendTag(w.buf, num, protowire.BytesType)
			w.buf = protowire.AppendString(w.buf, string(*v))
		}
		return
	}
	for w.at(num, protowire.BytesType) {
		*v = T(w.bytes())
	}
}

// texts visits a repeated string field.
func texts[T ~string](w *wire, num protowire.Number, v *[]T) {
	if !w.decoding {
		for _, s := range *v {
			w.buf = protowire.AppendTag(w.buf, num, protowire.BytesType)
			w.buf = protowire.AppendString(w.buf, string(s))
		}
		return
	}
	for w.at(num, protowire.BytesType) {
		*v = append(*v, T(w.bytes()))
	}
}

// bytes consumes the length-delimited field that at has found.
func (w *wire) bytes() []byte {
	b, n := protowire.ConsumeBytes(w.buf[w.tagLen:])
	if n < 0 {
		w.fail(n)
		return nil
	}
	w.advance(w.tagLen + n)
	return b
}

// list visits a repeated message field; each describes one element. Unknown fields of elements are
// dropped: a new version adds fields next to the list, not in its elements.
func list[T any](w *wire, num protowire.Number, v *[]T, each func(*T, *wire)) {
	if !w.decoding {
		for i := range *v {
			w.element(num, func(w *wire) { each(&(*v)[i], w) })
		}
		return
	}
	for w.at(num, protowire.BytesType) {
		if len(*v) == cap(*v) {
			*v = slices.Grow(*v, w.count())
		}
		var none T
		*v = append(*v, none)
		t := &(*v)[len(*v)-1]
		w.nested(func(w *wire) { each(t, w) })
	}
}

// optional visits a message field that may be absent.
func optional[T any](w *wire, num protowire.Number, v **T, each func(*T, *wire)) {
	if !w.decoding {
		if *v != nil {
			w.element(num, func(w *wire) { each(*v, w) })
		}
		return
	}
	for w.at(num, protowire.BytesType) {
		if *v == nil {
			*v = new(T)
		}
		w.nested(func(w *wire) { each(*v, w) })
	}
}

// element encodes one nested message. It reserves one byte for the length, which comes first but is
// known last, and makes space for more if needed.
func (w *wire) element(num protowire.Number, fields func(*wire)) {
	w.buf = protowire.AppendTag(w.buf, num, protowire.BytesType)
	start := len(w.buf)
	w.buf = append(w.buf, 0)
	fields(w)
	size := len(w.buf) - start - 1
	if extra := protowire.SizeVarint(uint64(size)) - 1; extra > 0 {
		w.buf = append(w.buf, make([]byte, extra)...)
		copy(w.buf[start+1+extra:], w.buf[start+1:start+1+size])
	}
	protowire.AppendVarint(w.buf[:start], uint64(size))
}

// nested decodes the message in the field that at has found.
func (w *wire) nested(fields func(*wire)) {
	b := w.bytes()
	if w.err != nil || len(b) == 0 {
		return
	}
	outer := *w
	*w = wire{decoding: true, buf: b}
	w.decode(fields)
	err := w.err
	if *w = outer; err != nil {
		w.err = err
	}
}

// count returns the number of consecutive fields with the number of the next one.
func (w *wire) count() int {
	n := 0
	for rest := w.buf; len(rest) > 0; n++ {
		num, typ, tag := protowire.ConsumeTag(rest)
		if tag < 0 || num != w.next || typ != w.typ {
			break
		}
		size := protowire.ConsumeFieldValue(num, typ, rest[tag:])
		if size < 0 {
			break
		}
		rest = rest[tag+size:]
	}
	return n
}
