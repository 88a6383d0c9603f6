package policylog_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/types"
)

// TestAnswers asks the server without the client. A request without the token gets nothing, not even the
// names of policies. An answer has the decisions of one policy of one namespace.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		token, given, method, path string
		code                       int
		has, lacks                 string
	}{
		"the token":        {"secret", "Bearer secret", "GET", "mine/team/log?after=0", 200, "of mine", "theirs"},
		"the other":        {"secret", "Bearer secret", "GET", "theirs/team/log?after=0", 200, "of theirs", "mine"},
		"no header":        {"secret", "", "GET", "mine/team/log?after=0", 412, "the token is missing", "of mine"},
		"an empty one":     {"secret", "Bearer ", "GET", "mine/team/log?after=0", 412, "the token is missing", "of mine"},
		"a part":           {"secret", "Bearer secre", "GET", "mine/team/log?after=0", 412, "the token is missing", "secret"},
		"too long":         {"secret", "Bearer secrets", "GET", "mine/team/log?after=0", 412, "the token is missing", "of mine"},
		"another scheme":   {"secret", "Basic secret", "GET", "mine/team/log?after=0", 412, "the token is missing", "of mine"},
		"token before bad": {"secret", "", "GET", "mine/team/log?after=x", 412, "the token is missing", "after"},
		"none is needed":   {"", "Bearer old", "GET", "mine/team/log?after=0", 200, "of mine", "theirs"},
		"unknown policy":   {"", "", "GET", "mine/teams/log?after=0", 200, `"known":false,"entries":[]`, "gang"},
		"no namespace":     {"", "", "GET", "nobody/team/log?after=0", 200, `"known":false,"entries":[]`, "gang"},
		"a later number":   {"", "", "GET", "mine/team/log?after=77", 200, `"known":true,"entries":[]`, "gang"},
		"an earlier one":   {"", "", "GET", "theirs/team/log?after=1", 200, `"seq":2`, "mine"},
		"no number":        {"", "", "GET", "mine/team/log", 400, "after", "of mine"},
		"negative":         {"", "", "GET", "mine/team/log?after=-1", 400, "not a number from 0 on", "of mine"},
		"a fraction":       {"", "", "GET", "mine/team/log?after=0.5", 400, "not a number from 0 on", "of mine"},
		"too large":        {"", "", "GET", "mine/team/log?after=9223372036854775808", 400, "not a number from 0 on", "of mine"},
		"two names in one": {"", "", "GET", "mine/team%2Fteam/log?after=0", 400, "id", "of mine"},
		"all namespaces":   {"", "", "GET", "*/team/log?after=0", 400, "namespace", "of mine"},
		"another method":   {"", "", "POST", "mine/team/log?after=0", 405, "", "of mine"},
	} {
		mux := http.NewServeMux()
		mux.Handle(policylog.Pattern, policylog.Handler(logged(), c.token))
		r := httptest.NewRequest(c.method, "http://server/v1/policies/"+c.path, http.NoBody)
		if c.given != "" {
			r.Header.Set("Authorization", c.given)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if body := w.Body.String(); w.Code != c.code || !strings.Contains(body, c.has) || strings.Contains(body, c.lacks) {
			t.Errorf("%s: %d %s", name, w.Code, body)
		}
	}
}

// TestOtherServers asks servers that give no page: the error has a class and names the server, and
// never the token.
func TestOtherServers(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  types.Class
		says   string
	}{
		"knows no log": {http.NotFound, types.Internal, "server one answers 404"},
		"is no server": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, types.Internal, "read the answer of server one"},
		"hangs up":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, types.Unavailable, "look whether it runs"},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"seq":1`))
		}, types.Unavailable, "look whether it runs"},
		"is gone": {nil, types.Unavailable, "look whether it runs"},
	} {
		l := listen(t)
		leader := &types.Leader{Holder: "one", Address: policylog.Address(l.Addr(), ""), Token: "secret"}
		srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: c.answer}}
		srv.Start()
		if c.answer == nil {
			srv.Close()
		}
		_, err := read(t.Context(), led(t, leader), "", "mine", 0)
		if !types.Is(err, c.class) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "server one") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
	}
}

// TestAddressOfVersion6 is TestAddress for other addresses: brackets stay, and loopback is of one machine.
func TestAddressOfVersion6(t *testing.T) {
	for _, c := range []struct{ ip, host, want string }{
		{"::1", "fd00::9", "http://[::1]:7#"}, {"::", "fd00::9", "http://[fd00::9]:7"}, {"fd00::1", "fd00::9", "http://[fd00::1]:7"},
		{"127.9.9.9", "h", "http://127.9.9.9:7#"}, {"0.0.0.0", "h.example", "http://h.example:7"},
	} {
		got := policylog.Address(&net.TCPAddr{IP: net.ParseIP(c.ip), Port: 7}, c.host)
		if local := strings.HasSuffix(c.want, "#"); !strings.HasPrefix(got, c.want) || !local && got != c.want {
			t.Errorf("%s is %s, want %s", c.ip, got, c.want)
		}
	}
}
