package etcdstore

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec is the Protocol Buffers codec of etcd's wire format. It needs no generated messages for the
// numerous ones: those of large ranges, watches and transactions. A generated message allocates
// several objects for each key, which costs more than their processing.
type codec struct{}

var _ encoding.CodecV2 = codec{}

// encoded is an encoded request.
type encoded []byte

// parser is an answer that parses itself. It may keep the data.
type parser interface{ parse(data []byte) error }

// Name returns the name of etcd's own codec.
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
	return nil, fmt.Errorf("encode a %T: it is not a request", v)
}

// Unmarshal decodes an answer.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case parser:
		return v.parse(data.Materialize())
	case proto.Message:
		return proto.Unmarshal(data.Materialize(), v)
	}
	return fmt.Errorf("decode a %T: it is not an answer", v)
}
