// Package answer formats the answers of the agent's HTTP servers: JSON, and errors with their
// class. Clients convert these back to errors of that class.
package answer

import (
	"encoding/json"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

// problem is the body of an error: its text and the name of its class.
type problem struct {
	Error string `json:"error"`
	Class string `json:"class"`
}

// Status returns the HTTP status of a class.
func Status(class types.Class) int {
	switch class {
	case types.NotFound:
		return http.StatusNotFound
	case types.AlreadyExists, types.Conflict:
		return http.StatusConflict
	case types.Invalid:
		return http.StatusBadRequest
	case types.Precondition:
		return http.StatusPreconditionFailed
	case types.Unavailable:
		return http.StatusServiceUnavailable
	case types.Unknown:
		return http.StatusGatewayTimeout
	case types.Compacted:
		return http.StatusGone
	case types.Denied:
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}

// Refuse answers with an error.
func Refuse(w http.ResponseWriter, err error) {
	JSON(w, Status(types.ClassOf(err)), Problem(err))
}

// Problem returns the JSON value of an error. It cuts a text of more than types.MaxAnswer bytes.
func Problem(err error) any {
	return problem{Error: types.Cut(err.Error(), types.MaxAnswer), Class: types.ClassOf(err).String()}
}

// Fail answers with an error. It logs an error of class internal, unless the request was canceled.
func Fail(w http.ResponseWriter, r *http.Request, log *zap.Logger, err error) {
	if types.Is(err, types.Internal) && r.Context().Err() == nil {
		log.Error("request failed", zap.String("path", r.URL.Path), zap.Error(err))
	}
	Refuse(w, err)
}

// Missing refuses unknown requests; page is the documentation of the known ones.
func Missing(page string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, types.Errorf(types.NotFound, "%s %s: there is no such request: see %s", r.Method, r.URL.Path, page))
	}
}

// Flag parses a boolean parameter; a missing one is false.
func Flag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, types.Errorf(types.Invalid, "%s: %q is neither true nor false: give one of them", name, text)
	}
	return v, nil
}

// JSON answers with v.
func JSON(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON","class":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // The client may be gone.
}

// Error is the inverse of Problem: it returns the error in text; nil if there is none.
func Error(text []byte) error {
	var p problem
	if json.Unmarshal(text, &p) != nil || p.Error == "" {
		return nil
	}
	for _, class := range types.Classes() {
		if class.String() == p.Class {
			return types.Errorf(class, "%s", p.Error)
		}
	}
	return nil
}

// Refused is the inverse of Refuse: it returns the error of an answer with an unexpected status.
// server is the name of the server.
func Refused(server string, code int, body []byte) error {
	if err := Error(body); err != nil {
		return err
	}
	return types.Errorf(types.Internal, "%s answers %d: %s", server, code, body)
}
