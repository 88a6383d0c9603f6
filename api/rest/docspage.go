package rest

import (
	"bytes"
	_ "embed"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

//go:embed docspage.html
var docsPage string

// docs is the content of the page of docs.
type docs struct {
	Title, Version, Description string
	Tags                        []docsTag
	Schemas                     []docsSchema
}

// docsTag is the operations with a tag.
type docsTag struct {
	Name       string
	Operations []docsOperation
}

// docsOperation is an operation.
type docsOperation struct {
	Method, Path string
	*huma.Operation
	// Body and Answers are the media types of the request and its answers.
	Body, Answers []docsMedia
}

// docsMedia is a media type with its schema.
type docsMedia struct {
	Status, Type string
	// Schema names the schema, empty if it has none; Text describes it then.
	Schema, Text string
}

// docsSchema is a schema with a name.
type docsSchema struct {
	Name   string
	Fields []docsField
}

// docsField is a field of a schema.
type docsField struct {
	Name, Doc string
	Required  bool
	docsMedia
}

// docsOf serves the description of an API as a page, which needs nothing else.
func docsOf(api huma.API) http.HandlerFunc {
	page := sync.OnceValues(func() ([]byte, error) {
		t, err := template.New("docs").Parse(docsPage)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = t.Execute(&out, docsFor(api.OpenAPI()))
		return out.Bytes(), err
	})
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := page()
		if err != nil {
			answer.Refuse(w, types.Errorf(types.Internal, "write the page of docs: %w", err))
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(text) // the client may be gone
	}
}

// docsFor returns the content of the page.
func docsFor(api *huma.OpenAPI) docs {
	out := docs{Title: api.Info.Title, Version: api.Info.Version, Description: api.Info.Description}
	tags := make(map[string][]docsOperation)
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		item := api.Paths[path]
		for _, m := range []struct {
			method string
			op     *huma.Operation
		}{{"GET", item.Get}, {"PUT", item.Put}, {"POST", item.Post}, {"PATCH", item.Patch}, {"DELETE", item.Delete}} {
			if m.op != nil {
				tag := strings.Join(m.op.Tags, " ")
				tags[tag] = append(tags[tag], docsFrom(m.method, path, m.op))
			}
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		out.Tags = append(out.Tags, docsTag{tag, tags[tag]})
	}
	all := api.Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := docsSchema{Name: name}
		for _, field := range slices.Sorted(maps.Keys(all[name].Properties)) {
			x := all[name].Properties[field]
			s.Fields = append(s.Fields, docsField{Name: field, Doc: x.Description, Required: slices.Contains(all[name].Required, field), docsMedia: mediaOf("", "", x)})
		}
		out.Schemas = append(out.Schemas, s)
	}
	return out
}

// docsFrom returns an operation of the page.
func docsFrom(method, path string, op *huma.Operation) docsOperation {
	out := docsOperation{Method: method, Path: path, Operation: op}
	if op.RequestBody != nil {
		for _, media := range slices.Sorted(maps.Keys(op.RequestBody.Content)) {
			out.Body = append(out.Body, mediaOf("", media, op.RequestBody.Content[media].Schema))
		}
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		res := op.Responses[status]
		if len(res.Content) == 0 {
			out.Answers = append(out.Answers, docsMedia{Status: status, Text: res.Description})
		}
		for _, media := range slices.Sorted(maps.Keys(res.Content)) {
			out.Answers = append(out.Answers, mediaOf(status, media, res.Content[media].Schema))
		}
	}
	return out
}

// mediaOf describes a schema: by its name, or by its type.
func mediaOf(status, media string, s *huma.Schema) docsMedia {
	out := docsMedia{Status: status, Type: media}
	if s == nil {
		return out
	}
	of := s
	if s.Type == huma.TypeArray && s.Items != nil {
		out.Text, of = "list of ", s.Items
	}
	if of.Ref != "" {
		out.Schema = of.Ref[strings.LastIndex(of.Ref, "/")+1:]
		return out
	}
	out.Text += of.Type
	var names []string
	for _, one := range of.OneOf {
		names = append(names, one.Ref[strings.LastIndex(one.Ref, "/")+1:])
	}
	out.Text += strings.Join(names, ", ")
	return out
}
