// Package schema has the schema of every value that Escher stores, escher.proto, for programs that show values.
// Programs that use values decode them with package types, which tests compare with the schema.
package schema

import (
	"context"
	_ "embed" // for escher.proto
	"fmt"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// name is the name of the file.
const name = "escher.proto"

//go:embed escher.proto
var text string

// Messages returns the messages of the schema.
func Messages(ctx context.Context) (protoreflect.MessageDescriptors, error) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{name: text}),
	}}
	files, err := compiler.Compile(ctx, name)
	if err != nil {
		return nil, err
	}
	return files[0].Messages(), nil
}

// Parse parses a stored value as the named message, and checks nothing but its encoding. The fields that
// the schema lacks are the unknown ones of the result.
func Parse(messages protoreflect.MessageDescriptors, message string, value []byte) (protoreflect.Message, error) {
	d := messages.ByName(protoreflect.Name(message))
	if d == nil {
		return nil, fmt.Errorf("the schema has no message %s", message)
	}
	if len(value) == 0 || value[0] != version {
		return nil, fmt.Errorf("it does not begin with the byte %d", version)
	}
	m := dynamicpb.NewMessage(d)
	return m, proto.Unmarshal(value[1:], m)
}

// version is the first byte of every value.
const version = 1
