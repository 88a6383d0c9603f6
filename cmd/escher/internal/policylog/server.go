package policylog

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Pattern is the request that Handler answers: the decisions of the policies of a job, or of a shared
// policy, that changed after a number.
const Pattern = "GET /v1/policies/{namespace}/{id}/log"

// path returns the path of a request.
func path(ns, id string, after int64) string {
	return "/v1/policies/" + url.PathEscape(ns) + "/" + url.PathEscape(id) + "/log?after=" + strconv.FormatInt(after, 10)
}

// Handler answers with a page of the log, for requests that carry the token. With an empty
// token it answers every request: the listener must then admit only users who may read the log.
func Handler(log *decisions.Log, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, err := read(log, token, r)
		if err != nil {
			answer.Fail(w, r, zap.NewNop(), err)
			return
		}
		answer.JSON(w, http.StatusOK, page)
	})
}

// read returns the page that a request asks for. Precondition: it has no token, or another one.
func read(log *decisions.Log, token string, r *http.Request) (decisions.Page, error) {
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
		return decisions.Page{}, types.Errorf(types.Precondition, "read the log of policies: the token is missing, or of an earlier server: leaders/policies in etcd has the present one")
	}
	of := cluster.ID{Namespace: r.PathValue("namespace"), ID: r.PathValue("id")}
	for field, name := range map[string]string{"namespace": of.Namespace, "id": of.ID} {
		if err := types.ValidateName(field, name); err != nil {
			return decisions.Page{}, err
		}
	}
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil || after < 0 {
		return decisions.Page{}, types.Errorf(types.Invalid, "after: %q is not a number from 0 on: give the seq of the last answer, or 0", r.URL.Query().Get("after"))
	}
	return log.Of(of, after), nil
}

// Address returns the address of a listener for others. One on loopback has the boot id of this
// machine, as every machine has that address. host is what other machines call this one.
func Address(l net.Addr, host string) string {
	if l.Network() == "unix" {
		return "unix://" + l.String() + "#" + watchdog.BootID()
	}
	at, port, err := net.SplitHostPort(l.String())
	if err != nil {
		return ""
	}
	switch ip := net.ParseIP(at); {
	case ip.IsLoopback():
		return "http://" + net.JoinHostPort(at, port) + "#" + watchdog.BootID()
	case ip.IsUnspecified():
		at = host
	}
	return "http://" + net.JoinHostPort(at, port)
}
