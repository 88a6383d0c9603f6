// Package wire encodes messages in the form of Protocol Buffers. One function describes a message by
// visiting its fields. The same description encodes and decodes, without reflection or generated code.
package wire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Batch is the number of the field for the id of a transaction, which every message may have first.
// Decode drops it.
const Batch = 1

// Pass is one pass over the fields of one message, encoding or decoding. A message has a function that
// visits each of its fields, in ascending order of numbers.
type Pass struct {
	buf      []byte // encoding: the output; decoding: the rest of the input
	decoding bool
	last     protowire.Number // the field visited last
	next     protowire.Number // decoding: the field that buf begins with, or 0
	typ      protowire.Type   // of next
	tagLen   int              // of next
	unknown  []byte
	err      error
}

// Append returns a pass that appends encoded fields to buf.
func Append(buf []byte) Pass { return Pass{buf: buf} }

// Encoded returns what an encoding pass has written.
func (w *Pass) Encoded() []byte { return w.buf }

// Decode decodes buf into the fields, and returns those that fields does not visit. Encoders write
// fields in ascending order, which takes one pass over buf, but any order is accepted. The error says
// where buf is malformed.
func Decode(buf []byte, fields func(*Pass)) (unknown []byte, err error) {
	w := Pass{decoding: true, buf: buf}
	w.decode(fields)
	return w.unknown, w.err
}

// decode is Decode for the rest of buf.
func (w *Pass) decode(fields func(*Pass)) {
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
func (w *Pass) peek() {
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
func (w *Pass) fail(n int) {
	if w.err == nil {
		w.err = protowire.ParseError(n)
	}
	w.buf, w.next = nil, 0
}

// keep moves the next field to the unknown ones.
func (w *Pass) keep() {
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
func (w *Pass) at(num protowire.Number, typ protowire.Type) bool {
	for w.next > w.last && w.next < num || w.next == num && w.typ != typ || w.next == Batch && num != Batch {
		if w.next == Batch {
			w.skip()
			continue
		}
		w.keep()
	}
	w.last = num
	return w.next == num
}

// skip drops the next field.
func (w *Pass) skip() {
	n := protowire.ConsumeFieldValue(w.next, w.typ, w.buf[w.tagLen:])
	if n < 0 {
		w.fail(n)
		return
	}
	w.advance(w.tagLen + n)
}

func (w *Pass) advance(n int) {
	w.buf = w.buf[n:]
	w.peek()
}

// varint visits an unsigned field.
func (w *Pass) varint(num protowire.Number, v uint64) uint64 {
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

// Decoding reports whether the pass decodes.
func (w *Pass) Decoding() bool { return w.decoding }

// Integer visits an int64 field (Protocol Buffers' int64) or a field with such a type.
func Integer[T ~int | ~int32 | ~int64](w *Pass, num protowire.Number, v *T) {
	// Encoding does not write to the message, which others may be encoding too.
	if n := w.varint(num, uint64(int64(*v))); w.decoding {
		*v = T(n)
	}
}

// Boolean visits a bool field.
func (w *Pass) Boolean(num protowire.Number, v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	if n = w.varint(num, n); w.decoding {
		*v = n != 0
	}
}

// Text visits a string field or a field with such a type.
func Text[T ~string](w *Pass, num protowire.Number, v *T) {
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

// Texts visits a repeated string field.
func Texts[T ~string](w *Pass, num protowire.Number, v *[]T) {
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
func (w *Pass) bytes() []byte {
	b, n := protowire.ConsumeBytes(w.buf[w.tagLen:])
	if n < 0 {
		w.fail(n)
		return nil
	}
	w.advance(w.tagLen + n)
	return b
}

// List visits a repeated message field; each describes one element. Unknown fields of elements are
// dropped: a new version adds fields next to the list, not in its elements.
func List[T any](w *Pass, num protowire.Number, v *[]T, each func(*T, *Pass)) {
	if !w.decoding {
		for i := range *v {
			w.element(num, func(w *Pass) { each(&(*v)[i], w) })
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
		w.nested(func(w *Pass) { each(t, w) })
	}
}

// Optional visits a message field that may be absent.
func Optional[T any](w *Pass, num protowire.Number, v **T, each func(*T, *Pass)) {
	if !w.decoding {
		if *v != nil {
			w.element(num, func(w *Pass) { each(*v, w) })
		}
		return
	}
	for w.at(num, protowire.BytesType) {
		if *v == nil {
			*v = new(T)
		}
		w.nested(func(w *Pass) { each(*v, w) })
	}
}

// element encodes one nested message. It reserves one byte for the length, which comes first but is
// known last, and makes space for more if needed.
func (w *Pass) element(num protowire.Number, fields func(*Pass)) {
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
func (w *Pass) nested(fields func(*Pass)) {
	b := w.bytes()
	if w.err != nil || len(b) == 0 {
		return
	}
	outer := *w
	*w = Pass{decoding: true, buf: b}
	w.decode(fields)
	err := w.err
	if *w = outer; err != nil {
		w.err = err
	}
}

// count returns the number of consecutive fields with the number of the next one.
func (w *Pass) count() int {
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
