package answer

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

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
	Command string `json:"command,omitempty" doc:"the detail with commands as remedies, if it has any"`
}

// Error returns the error text.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of problems.
func (p *Problem) ContentType(string) string { return mediaOfProblems }

// mediaOfProblems is the media type of problems.
const mediaOfProblems = "application/problem+json"

// Answer answers with the problem.
func (p *Problem) Answer(w http.ResponseWriter) { write(w, mediaOfProblems, p.Status, p) }

// ProblemOf returns an error as a problem. The detail has at most types.MaxAnswer bytes.
func ProblemOf(err error) *Problem {
	class := types.ClassOf(err)
	status := Status(class)
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

// Error returns the error that a problem in JSON describes, with commands as remedies if it has any; nil
// if the text is no problem.
func Error(text []byte) error {
	var p struct{ Class, Detail, Command string }
	if json.Unmarshal(text, &p) != nil {
		return nil
	}
	says := cmp.Or(p.Command, p.Detail)
	for _, class := range types.Classes() {
		if says != "" && class.String() == p.Class {
			return types.Errorf(class, "%s", says)
		}
	}
	return nil
}
