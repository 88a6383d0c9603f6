package etcdstore

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec is Protocol Buffers on the wire, as etcd speaks it, without a generated message
// in between where there are very many: those of the large ranges, the watches and
// the transactions. For each of their keys a generated one makes several objects,
// which costs more than what is done with them.
type codec struct{}

var _ encoding.CodecV2 = codec{}

// encoded is a request as it goes out.
type encoded []byte

// parser is an answer that reads itself. It may keep what it is given.
type parser interface{ parse(data []byte) error }

// Name returns that of the codec that etcd has.
func (codec) Name() string { return "proto" }

// Marshal returns the wire format of a request.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case encoded:
		return mem.BufferSlice{mem.SliceBuffer(v)}, nil
	case proto.Message:
		data, err := proto.Marshal(v)
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	}
	return nil, fmt.Errorf("encode a %T: it is no request", v)
}

// Unmarshal reads an answer.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case parser:
		return v.parse(data.Materialize())
	case proto.Message:
		return proto.Unmarshal(data.Materialize(), v)
	}
	return fmt.Errorf("decode a %T: it is no answer", v)
}
