package rest

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Problem is an error as RFC 9457 has it.
type Problem struct {
	// Title is the HTTP status in words, Status its number.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is the error: the object, the problem and, for what can be corrected, the remedy.
	Detail string `json:"detail" doc:"the object, the problem and the remedy"`
	// Class is that of the error: it decides what a program does about it.
	Class string `json:"class" enum:"internal,not found,already exists,conflict,invalid,precondition,unavailable,unknown outcome,compacted,denied" doc:"decides what a program does about it"`
	// Field is the field or parameter that is wrong, if it is one.
	Field string `json:"field,omitempty" doc:"the field or parameter that is wrong"`
	// Remedy is what to do about it, if the error says so.
	Remedy string `json:"remedy,omitempty" doc:"what to do about it"`
	// Command is the detail with commands of escher as remedies, if it has any.
	Command string `json:"command,omitempty" doc:"the detail with commands of escher as remedies, if it has any"`
}

// Error returns the error text.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problems.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// problemOf returns an error as a problem. The detail has at most types.MaxAnswer bytes.
func problemOf(err error) *Problem {
	class := types.ClassOf(err)
	status := answer.Status(class)
	p := &Problem{Title: http.StatusText(status), Status: status, Detail: types.Cut(err.Error(), types.MaxAnswer), Class: class.String()}
	if class == types.Invalid {
		p.Field, p.Remedy = split(p.Detail)
	}
	return p
}

// split returns the field that an invalid input begins with, and the remedy at its end: such an error
// has the form "field: problem: remedy".
func split(text string) (field, remedy string) {
	if strings.Contains(text, "\n") {
		return "", ""
	}
	parts := strings.Split(text, ": ")
	if strings.HasPrefix(parts[0], "body:") {
		parts = parts[1:] // the line of a document
	}
	if len(parts) < 3 {
		return "", ""
	}
	if !strings.Contains(parts[0], " ") {
		field = parts[0]
	}
	return field, parts[len(parts)-1]
}

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
	p := &Problem{Title: http.StatusText(m.Status), Status: m.Status, Detail: m.Detail, Class: class.String()}
	if len(m.Errors) > 0 {
		_, p.Field, _ = strings.Cut(m.Errors[0].Location, ".")
		p.Detail = p.Field + ": " + m.Errors[0].Message
		if value, ok := m.Errors[0].Value.(string); ok {
			p.Detail = fmt.Sprintf("%s: %q: %s", p.Field, types.Cut(value, types.MaxName), m.Errors[0].Message)
		}
	}
	return p, nil
}
