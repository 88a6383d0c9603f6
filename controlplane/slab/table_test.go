package slab_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane/slab"
)

// row is what a record is to hold.
type row struct {
	number int32
	long   int64
	text   string
}

// TestTable: each record is found by its task, and holds what was put into it.
func TestTable(t *testing.T) {
	const number, long, size = 0, 4, 12
	rapid.Check(t, func(t *rapid.T) {
		table, want := slab.NewTable(size), make(map[[2]string]row)
		table.Mask = rapid.SampledFrom([]uint64{^uint64(0), 7, 0}).Draw(t, "mask")
		task := func(t *rapid.T) [2]string {
			return [2]string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace"), fmt.Sprint("t", rapid.IntRange(0, 20).Draw(t, "id"))}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				id := task(t)
				if _, there := want[id]; there {
					return
				}
				x := row{rapid.Int32().Draw(t, "number"), rapid.Int64().Draw(t, "long"), strings.Repeat("x", rapid.IntRange(0, slab.MaxSize).Draw(t, "text"))}
				p := table.Add(id[0], id[1], []byte(x.text))
				if p == 0 {
					if table.Mask == ^uint64(0) && len(x.text) < slab.MaxSize-size-16 {
						t.Fatalf("%v with %d bytes was not added", id, len(x.text))
					}
					return
				}
				r := table.At(p)
				r.SetUint32(number, uint32(x.number))
				r.SetInt64(long, x.long)
				want[id] = x
			},
			"remove": func(t *rapid.T) {
				id := task(t)
				p := table.Find(id[0], id[1])
				if _, there := want[id]; there != (p != 0) {
					t.Fatalf("%v is there: %t, found at %d", id, there, p)
				}
				if p != 0 {
					table.Remove(p)
					delete(want, id)
				}
			},
			"": func(t *rapid.T) {
				if all := slices.Collect(table.All()); len(all) != len(want) || table.Len() != len(want) {
					t.Fatalf("%d records of %d, want %d", len(all), table.Len(), len(want))
				}
				for _, space := range []string{"a", "b", "c"} {
					for p := range table.In(space) {
						r := table.At(p)
						got := row{int32(r.Uint32(number)), r.Int64(long), string(r.Text())}
						id := [2]string{table.Namespace(p), string(r.ID())}
						if x, ok := want[id]; !ok || id[0] != space || got != x {
							t.Fatalf("in %s: %v holds %v, want %v", space, id, got, x)
						}
					}
				}
			},
		})
	})
}
