package rest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// refuse is the answer to what huma refuses by itself: an unknown or malformed parameter, or a body that
// is too large.
func refuse(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	noteFailure(ctx.Context(), nil)
	class := types.Invalid
	switch {
	case m.Status == http.StatusNotFound:
		class = types.NotFound
	case m.Status >= http.StatusInternalServerError:
		class = types.Internal
	}
	p := &answer.Problem{Title: http.StatusText(m.Status), Status: m.Status, Detail: m.Detail, Class: class.String()}
	if len(m.Errors) > 0 {
		_, p.Field, _ = strings.Cut(m.Errors[0].Location, ".")
		p.Detail = p.Field + ": " + m.Errors[0].Message
		value, ok := m.Errors[0].Value.(string)
		switch {
		case m.Errors[0].Message == "unknown query parameter":
			p.Detail = p.Field + ": is no parameter of this operation: correct the name: /openapi.json lists them"
		case ok:
			p.Detail = fmt.Sprintf("%s: %q: %s", p.Field, types.Cut(value, types.MaxName), m.Errors[0].Message)
		}
	}
	return p, nil
}
