package gateway

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/types"
)

// frame is an encoded message that passes as it is.
type frame struct{ data []byte }

// codec encodes frames, and all other messages as gRPC does.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Marshal returns the encoding of a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*frame); ok {
		return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*frame); ok {
		f.data = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// field is a field of an encoded message.
type field struct {
	num protowire.Number
	// n is the value of a number, and bytes that of a text or message.
	n     uint64
	bytes []byte
}

// numbers is a set of fields.
type numbers [2]uint64

func (s *numbers) add(n protowire.Number) (fresh bool) {
	bit := uint64(1) << (n % 64)
	fresh = s[n/64]&bit == 0
	s[n/64] |= bit
	return fresh
}

// fields calls take for each field of an encoded message. texts are the fields that are texts or
// messages, and others numbers, up to last; repeated ones may come several times. Invalid: the message has
// another field, or one twice, so that two readers could understand it differently.
func fields(data []byte, last protowire.Number, texts, repeated numbers, take func(field) error) error {
	var seen numbers
	for len(data) > 0 {
		num, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return unreadable(protowire.ParseError(n))
		}
		data = data[n:]
		f := field{num: num}
		text := num <= last && texts[num/64]>>(num%64)&1 == 1
		switch {
		case num > last:
			return unreadable(fmt.Errorf("field %d is not served", num))
		case !seen.add(num) && repeated[num/64]>>(num%64)&1 == 0:
			return unreadable(fmt.Errorf("field %d comes twice", num))
		case text && kind == protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(data)
		case !text && kind == protowire.VarintType:
			f.n, n = protowire.ConsumeVarint(data)
		default:
			return unreadable(fmt.Errorf("field %d has another type", num))
		}
		if n < 0 {
			return unreadable(protowire.ParseError(n))
		}
		data = data[n:]
		if err := take(f); err != nil {
			return err
		}
	}
	return nil
}

// errTwoKinds is why a message is not understood of which etcd would take one field.
var errTwoKinds = errors.New("one of several fields comes with another")

func unreadable(err error) error {
	return types.Errorf(types.Invalid, "read the request: %w: send it as etcd's own client does", err)
}

// set returns a set of fields.
func set(all ...protowire.Number) (s numbers) {
	for _, n := range all {
		s.add(n)
	}
	return s
}
