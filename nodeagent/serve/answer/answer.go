// Package answer formats the answers of the HTTP servers: JSON, and errors as problems of RFC 9457 with
// their class. Clients convert these back to errors of that class.
package answer

import (
	"encoding/json"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/types"
)

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
func Refuse(w http.ResponseWriter, err error) { ProblemOf(err).Answer(w) }

// RefuseAs answers with an error, with another status than that of its class.
func RefuseAs(w http.ResponseWriter, status int, err error) {
	p := ProblemOf(err)
	p.Title, p.Status = http.StatusText(status), status
	p.Answer(w)
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
func JSON(w http.ResponseWriter, code int, v any) { write(w, "application/json", code, v) }

// write answers with v as JSON.
func write(w http.ResponseWriter, media string, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		media, code, text = mediaOfProblems, http.StatusInternalServerError, []byte(`{"detail":"the answer cannot be written as JSON","class":"internal"}`)
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // The client may be gone.
}

// Refused is the inverse of Refuse: it returns the error of an answer with an unexpected status.
// server is the name of the server.
func Refused(server string, code int, body []byte) error {
	if err := Error(body); err != nil {
		return err
	}
	return types.Errorf(types.Internal, "%s answers %d: %s", server, code, body)
}
