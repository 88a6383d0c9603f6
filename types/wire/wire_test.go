package wire

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// inner and outer have a field of each sort.
type inner struct {
	Name string
	N    int
}

func (i *inner) fields(w *Pass) {
	Text(w, 2, &i.Name)
	Integer(w, 3, &i.N)
}

type outer struct {
	Name  string
	N     int64
	On    bool
	Words []string
	List  []inner
	One   *inner
}

func (o *outer) fields(w *Pass) {
	Text(w, 2, &o.Name)
	Integer(w, 3, &o.N)
	w.Boolean(4, &o.On)
	Texts(w, 5, &o.Words)
	List(w, 6, &o.List, (*inner).fields)
	Optional(w, 7, &o.One, (*inner).fields)
}

// encoded returns the encoding of a message.
func encoded(o *outer) []byte {
	w := Append(nil)
	o.fields(&w)
	return w.Encoded()
}

func TestRoundTrip(t *testing.T) {
	long := strings.Repeat("x", 300) // its length takes two bytes
	for _, want := range []outer{
		{},
		{Name: "a", N: -1, On: true, Words: []string{"b", "", "c"}, List: []inner{{}, {"d", 7}}, One: &inner{}},
		{N: math.MinInt64, List: []inner{{Name: long}, {Name: long, N: -5}}, One: &inner{long, math.MaxInt}},
	} {
		var got outer
		unknown, err := Decode(encoded(&want), got.fields)
		if err != nil || len(unknown) > 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v, % x, %v", want, got, unknown, err)
		}
	}
}

// TestAnyOrder decodes fields in an order that no encoder of ours writes, and keeps those it does not
// know, in their order.
func TestAnyOrder(t *testing.T) {
	text := func(num protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), s)
	}
	batch := protowire.AppendFixed64(protowire.AppendTag(nil, Batch, protowire.Fixed64Type), 9)
	var got outer
	unknown, err := Decode(slices.Concat(text(5, "a"), text(99, "later"), text(2, "first"), batch, text(5, "b"), text(2, "last"), text(50, "too")), got.fields)
	if want := (outer{Name: "last", Words: []string{"a", "b"}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if want := slices.Concat(text(99, "later"), text(50, "too")); !bytes.Equal(unknown, want) {
		t.Errorf("unknown: % x", unknown)
	}
}

func TestMalformed(t *testing.T) {
	whole := encoded(&outer{Name: "abc", List: []inner{{"d", 7}}})
	for at := 1; at < len(whole); at++ {
		if whole[at-1] == 'c' {
			continue // the end of a field
		}
		if _, err := Decode(whole[:at], new(outer).fields); err == nil {
			t.Errorf("the first %d bytes are decoded", at)
		}
	}
	for name, data := range map[string][]byte{"field 0": {0, 0}, "an endless number": bytes.Repeat([]byte{0xff}, 20), "an end of a group": {0x14}} {
		if _, err := Decode(data, new(outer).fields); err == nil {
			t.Errorf("%s is decoded", name)
		}
	}
}

// TestOtherTypes keeps a field of another type as unknown.
func TestOtherTypes(t *testing.T) {
	data := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 7)
	var got outer
	unknown, err := Decode(data, got.fields)
	if err != nil || got.Name != "" || !bytes.Equal(unknown, data) {
		t.Errorf("%+v, % x, %v", got, unknown, err)
	}
}
