package manifest

import (
	"bytes"
	"encoding/json"

	"github.com/escher-sched/escher/types"
)

// Encode returns documents as a file, from which Parse reads the same ones: JSON, with --- between them.
func Encode(docs []Document) ([]byte, error) {
	var out bytes.Buffer
	for i := range docs {
		head, err := json.Marshal(header{APIVersion, docs[i].Kind})
		if err != nil {
			return nil, types.Errorf(types.Internal, "write %s: %w", &docs[i], err)
		}
		rest, err := json.Marshal(docs[i].content())
		if err != nil {
			return nil, types.Errorf(types.Internal, "write %s: %w", &docs[i], err)
		}
		out.WriteString("---\n")
		out.Write(head[:len(head)-1])
		if string(rest) != "{}" {
			out.WriteByte(',')
		}
		out.Write(rest[1:])
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// content returns the fields of the kind of a document.
func (d *Document) content() any {
	switch d.Kind {
	case KindTask:
		return d.Task
	case KindResource:
		return d.Resource
	case KindReservation:
		return d.Reservation
	case KindPolicy:
		return d.Policy
	case KindNamespace:
		return d.Namespace
	case KindRight:
		return d.Right
	}
	j := *d.Job
	if j.Array != nil && j.Array.AtOnce > 0 { // Parse has made a policy of it
		j.Array = &Array{Indices: j.Array.Indices}
	}
	return j
}
