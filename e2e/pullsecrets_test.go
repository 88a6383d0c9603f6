package e2e

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	nodeimage "github.com/escher-sched/escher/nodeagent/runtime/image"
)

// privateRegistry is a registry with TLS that wants a user and a password.
type privateRegistry struct {
	host     string
	password atomic.Value
}

// newPrivateRegistry starts a registry at an address that all hosts reach.
func (m *machines) newPrivateRegistry(password string) *privateRegistry {
	m.t.Helper()
	p := new(privateRegistry)
	p.password.Store(password)
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "ann" || password != p.password.Load() {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	}))
	cert, err := tls.LoadX509KeyPair(m.certs.server, m.certs.serverKey)
	if err != nil {
		m.t.Fatal(err)
	}
	_ = server.Listener.Close() // it was of the loopback
	if server.Listener, err = net.Listen("tcp", m.net.address(0)+":0"); err != nil {
		m.t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	m.t.Cleanup(server.Close)
	p.host = server.Listener.Addr().String()
	img, err := nodeimage.Build(nodeimage.Spec{Name: p.host + "/team/app:v1", Entrypoint: []string{"/bin/program"}, Files: map[string]string{"/bin/program": built.program}})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, ref := range []string{"team/app:v1", "team/app:v2"} {
		tag, err := name.NewTag(p.host + "/" + ref)
		if err != nil {
			m.t.Fatal(err)
		}
		if err := remote.Write(tag, img, remote.WithTransport(direct{store})); err != nil {
			m.t.Fatal(err)
		}
	}
	return p
}

// direct answers requests by a handler.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	res := w.Result()
	res.Request = r
	return res, nil
}

// setLogin sets the password of a registry in a namespace.
func (m *machines) setLogin(socket, ns, host, password string) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), built.escher, "secret", "set", "--registry", host, "--username", "ann", "-n", ns, "--server", socket)
	cmd.Stdin = strings.NewReader(password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "registry-"+strings.ReplaceAll(host, ":", "_")+"\n" {
		m.t.Fatalf("%v: %s", err, out)
	}
}

// pulls runs a task with an image, which must succeed or fail with all of the reasons.
func (m *machines) pulls(what, ns, ref string, reasons ...string) {
	m.t.Helper()
	id := m.must("run", "-d", "-n", ns, ref, "--", "exit", "0")
	o := m.escher("wait", "-n", ns, "--timeout", patience.String(), id)
	said := strings.Join(strings.Fields(m.must("describe", "-n", ns, id)), " ")
	if ok := o.code == 0; ok != (len(reasons) == 0) {
		m.t.Errorf("%s: exit code %d, %s", what, o.code, said)
	}
	for _, reason := range reasons {
		if !strings.Contains(said, reason) {
			m.t.Errorf("%s: it says\n%s\nand not %q", what, said, reason)
		}
	}
}

// TestPullSecrets pulls an image with the password of a namespace, by an agent that a server knows by its
// certificate. Another namespace may not run the image without a password of its own. The password is in no
// key and no file.
func TestPullSecrets(t *testing.T) {
	t.Parallel() // it mostly waits
	m, socket := newSealing(t)
	p := m.newPrivateRegistry("sesame-of-a-registry")
	m.agent("a")
	v1, v2 := p.host+"/team/app:v1", p.host+"/team/app:v2"
	secret := "registry-" + strings.ReplaceAll(p.host, ":", "_")

	m.pulls("without a password", "default", v1, "not authorised", "escher secret set --registry "+p.host+" --username USER")
	m.setLogin(socket, "default", p.host, "a-wrong-password")
	m.pulls("with a wrong password", "default", v1, "registry "+p.host+" refuses the user of secret "+secret+" in namespace default",
		"escher secret set --registry "+p.host+" --username USER --namespace default")
	m.setLogin(socket, "default", p.host, "sesame-of-a-registry")
	m.pulls("with the password", "default", v1)

	m.pulls("another namespace", "other", v1, "not authorised")
	m.setLogin(socket, "other", p.host, "a-wrong-password")
	m.pulls("another namespace with a wrong password", "other", v1, "refuses the user of secret "+secret+" in namespace other")
	m.setLogin(socket, "other", p.host, "sesame-of-a-registry")
	m.pulls("another namespace with the password", "other", v1)
	m.pulls("the first namespace again", "default", v1)

	p.password.Store("sesame-of-today")
	m.pulls("an image of the node, with the old password", "default", v1)
	m.pulls("another image, with the old password", "default", v2, "refuses the user of secret")
	m.setLogin(socket, "default", p.host, "sesame-of-today")
	m.pulls("another image, with the new password", "default", v2)
	m.byServer(socket, "secret", "rm", secret)
	m.pulls("after the secret is removed", "default", v1, "not authorised")
	for _, password := range []string{"sesame-of-a-registry", "sesame-of-today", "a-wrong-password"} {
		m.nowhere(password, "")
	}
	m.await("the log of requests has what the agent got", func() bool {
		o := command(m.t, nil, "log", "--server", socket)
		return strings.Contains(o.out, "openLogin") && strings.Contains(o.out, secret)
	})
}
