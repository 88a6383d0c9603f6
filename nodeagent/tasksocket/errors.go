package tasksocket

import (
	"encoding/json"
	"net/http"

	"github.com/escher-sched/escher/types"
)

// problem is the body of every answer that is none: what is wrong, and the name of
// its class.
type problem struct {
	Error string `json:"error"`
	Class string `json:"class"`
}

// status returns the HTTP status of a class.
func status(class types.Class) int {
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
	}
	return http.StatusInternalServerError
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	class := types.ClassOf(err)
	answer(w, status(class), problem{Error: err.Error(), Class: class.String()})
}

// answer answers with v.
func answer(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON","class":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n')) // Whoever asked may be gone.
}

// problemOf is the inverse of refuse.
func problemOf(code int, body []byte) error {
	var p problem
	if json.Unmarshal(body, &p) == nil && p.Error != "" {
		for _, class := range types.Classes() {
			if class.String() == p.Class {
				return types.Errorf(class, "%s", p.Error)
			}
		}
	}
	return types.Errorf(types.Internal, "the task socket answers %d: %s", code, body)
}
