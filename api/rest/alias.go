package rest

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl/apply"
	given "github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// schemaName names the schema of a type. A type of files has the prefix File, as others have the same
// name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch path := t.PkgPath(); {
	case path == reflect.TypeFor[manifest.Task]().PkgPath():
		return "File" + name
	case t == reflect.TypeFor[requests.Job](), t == reflect.TypeFor[requests.Policy]():
		return "Launch" + name
	case t == reflect.TypeFor[given.Login]():
		return "Registry" + name
	case path == reflect.TypeFor[types.Bundle]().PkgPath():
		return "Stored" + name
	case path == reflect.TypeFor[apply.Decision]().PkgPath():
		return "Apply" + name
	case path == reflect.TypeFor[measured.Task]().PkgPath():
		return "Measured" + name
	case path == reflect.TypeFor[why.Reason]().PkgPath():
		return "Why" + name
	}
	return name
}

// amounts is the JSON form of cluster.Amounts.
type amounts struct {
	Name      string `json:"name"`
	Capacity  string `json:"capacity"`
	Allocated string `json:"allocated"`
	Free      string `json:"free"`
}

// deviceRequest is the JSON form of types.DeviceRequest.
type deviceRequest struct {
	Resource  string   `json:"resource"`
	Model     []string `json:"model,omitempty"`
	MinMemory string   `json:"minMemory,omitempty"`
	Topology  string   `json:"topology,omitempty"`
}

// alias says of types with a JSON form of their own which type has the same form.
func (s *service) alias() {
	text, object := reflect.TypeFor[string](), reflect.TypeFor[map[string]string]()
	for t, as := range map[reflect.Type]reflect.Type{
		reflect.TypeFor[types.Requests]():      object,
		reflect.TypeFor[types.Duration]():      text,
		reflect.TypeFor[manifest.Wait]():       text,
		reflect.TypeFor[types.Text]():          text,
		reflect.TypeFor[apply.Condition]():     text,
		reflect.TypeFor[cluster.Amounts]():     reflect.TypeFor[amounts](),
		reflect.TypeFor[types.DeviceRequest](): reflect.TypeFor[deviceRequest](),
		reflect.TypeFor[manifest.Size]():       text,
		reflect.TypeFor[manifest.Limits]():     reflect.TypeFor[any](),
		reflect.TypeFor[manifest.PortRef]():    reflect.TypeFor[any](),
		reflect.TypeFor[manifest.With]():       reflect.TypeFor[map[string]any](),
		reflect.TypeFor[manifest.Env]():        reflect.TypeFor[any](),
		reflect.TypeFor[json.RawMessage]():     reflect.TypeFor[map[string]any](),
		reflect.TypeFor[time.Duration]():       reflect.TypeFor[int64](),
	} {
		s.api.OpenAPI().Components.Schemas.RegisterTypeAlias(t, as)
	}
}
