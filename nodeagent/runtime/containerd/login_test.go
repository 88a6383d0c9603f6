package containerd_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

func loginTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"LoginOfANamespace":         testLogin,
		"LoginIsOfOneRegistry":      testLoginOfOneRegistry,
		"LoginWithToken":            testLoginToken,
		"LoginIsNotRedirected":      testLoginRedirected,
		"LoginIsNotInErrors":        testLoginEchoed,
		"PrivateImageByDigest":      testPrivateByDigest,
		"PrivateImageOfALiar":       testPrivateOfALiar,
		"PrivateImageBecomesPublic": testPrivateBecomesPublic,
		"PrivatePullIsNotShared":    testPrivatePullNotShared,
	}
}

// loginOf is the right login for a shop.
func (s *shop) loginOf() secrets.Login {
	return secrets.Login{Secret: "registry-test", Registry: s.host, Username: "user", Password: "secret", Created: 5, Revision: 5}
}

// wantsUser makes a shop require the user and the password.
func (s *shop) wantsUser() {
	s.behave(func(w http.ResponseWriter, r *http.Request) bool {
		if isUser(r) {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
}

// of returns a container of a namespace with a login.
func (b *bench) of(namespace, image string, login secrets.Login) nodeagent.Container {
	c := b.container("exit", "0")
	c.Image, c.Attempt.Namespace = image, namespace
	c.Login = func(context.Context) (secrets.Login, error) { return login, nil }
	return c
}

// runs starts a container of a namespace, and returns how many requests a shop got for it.
func (s *shop) runs(namespace, image string, login secrets.Login) int {
	s.Helper()
	sum := func() (n int) {
		for _, k := range s.counts() {
			n += k
		}
		return n
	}
	before := sum()
	s.output(s.of(namespace, image, login), 0)
	return sum() - before
}

// refuses checks that a container of a namespace does not start, and why.
func (b *bench) refuses(namespace, image string, login secrets.Login, says ...string) {
	b.Helper()
	err := b.Start(b.ctx(), b.of(namespace, image, login))
	if !types.Is(err, types.NotFound) {
		b.Errorf("%s: got %v, want NotFound", namespace, err)
	}
	for _, text := range says {
		if !strings.Contains(fmt.Sprint(err), text) {
			b.Errorf("%s: got %v, want %q", namespace, err, text)
		}
	}
	if strings.Contains(fmt.Sprint(err), login.Password) && login.Password != "" {
		b.Errorf("%v has the password", err)
	}
}

func testLogin(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	s.wantsUser()
	none, right := secrets.Login{}, s.loginOf()
	wrong := right
	wrong.Password, wrong.Revision = "wrong-password", 6

	b.refuses("a", p.ref, none, "not authorised", "docker login", "set the password of its namespace for registry "+s.host)
	b.refuses("a", p.ref, wrong, "registry "+s.host+" refuses the user of secret registry-test in namespace a", "set the password of its namespace for registry "+s.host+" in namespace a")
	if n := s.runs("a", p.ref, right); n == 0 {
		b.Error("the first pull asks for nothing")
	}
	if n := s.runs("a", p.ref, right); n != 0 {
		b.Errorf("the namespace that has pulled it asks again, %d times", n)
	}
	if n := s.runs("a", p.ref, wrong); n != 0 {
		b.Errorf("with a new password it asks again, %d times", n)
	}
	b.refuses("a", p.ref, none, "not authorised") // its secret is removed
	wrong.Created = 7                             // and made again
	b.refuses("a", p.ref, wrong, "refuses the user of secret")

	b.refuses("b", p.ref, none, "not authorised")
	b.refuses("b", p.ref, wrong, "in namespace b")
	other := right
	other.Secret, other.Created, other.Revision = "registry-other", 8, 8
	for _, want := range []bool{true, false} {
		if n := s.runs("b", p.ref, other); n > 0 != want {
			b.Errorf("another namespace with its own password asks %d times, want some at first", n)
		}
	}
	if n := s.runs("a", p.ref, right); n != 0 {
		b.Errorf("the first namespace asks again after the second, %d times", n)
	}
	b.refuses("c", p.ref, none, "not authorised")
	down := b.of("c", p.ref, none)
	down.Login = func(context.Context) (secrets.Login, error) {
		return secrets.Login{}, types.Errorf(types.Unavailable, "no server")
	}
	b.wants(b.Start(b.ctx(), down), types.Unavailable)
	public := b.of("c", runtimetest.Image, none)
	public.Login = func(context.Context) (secrets.Login, error) {
		b.Error("asked for the login of an image that is free for all")
		return secrets.Login{}, nil
	}
	b.output(public, 0)
}

// testLoginOfOneRegistry gives a login for another registry, and one of the node.
func testLoginOfOneRegistry(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	var mu sync.Mutex
	sent := 0
	s.behave(func(w http.ResponseWriter, r *http.Request) bool {
		if user, _, _ := r.BasicAuth(); user == "other" {
			mu.Lock()
			sent++
			mu.Unlock()
		}
		if isUser(r) {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	other := s.loginOf()
	other.Registry, other.Username, other.Password = "ghcr.io", "other", "other-password"
	b.refuses("a", p.ref, other)
	if sent != 0 {
		b.Errorf("the registry got the password of another, %d times", sent)
	}
	b.login(b.T, s.host)
	other.Registry = s.host
	b.refuses("a", p.ref, other, "refuses the user of secret") // the node's own comes after it
	if sent == 0 {
		b.Error("the registry did not get the password of the namespace")
	}
	s.runs("b", p.ref, secrets.Login{})
	s.runs("c", p.ref, secrets.Login{}) // it is free for all, like the login of the node
	b.pulls(p.ref)
}

func testLoginToken(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	s.wantsToken()
	b.refuses("a", p.ref, secrets.Login{}, "not authorised")
	wrong := s.loginOf()
	wrong.Password = "wrong-password"
	b.refuses("a", p.ref, wrong, "registry "+s.host+" refuses the user of secret")
	s.runs("a", p.ref, s.loginOf())
	b.refuses("b", p.ref, secrets.Login{}, "not authorised")
}

// testLoginRedirected pulls from a registry that redirects to another port of its host.
func testLoginRedirected(b *bench) {
	s, far := b.shop(), b.shop()
	p := s.stock("test/program:v1")
	var mu sync.Mutex
	var got []string
	far.behave(func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		got = append(got, r.Header.Get("Authorization"))
		mu.Unlock()
		_, _ = w.Write(p.content) // the client may have hung up
		return true
	})
	s.behave(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case !isUser(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == p.layer:
			http.Redirect(w, r, "http://"+far.host+r.URL.Path, http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	})
	s.runs("a", p.ref, s.loginOf())
	if len(got) == 0 || strings.Join(got, "") != "" {
		b.Errorf("the other host got %q, want requests without a password", got)
	}
}

// testPrivateByDigest names a private image of this machine by its digest, as of any registry.
func testPrivateByDigest(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	byDigest := strings.TrimSuffix(p.ref, ":v1") + "@" + p.digest
	s.wantsUser()
	s.runs("a", p.ref, s.loginOf())
	if n := s.runs("a", byDigest, s.loginOf()); n != 0 {
		b.Errorf("the namespace that has pulled it asks again, %d times", n)
	}
	b.refuses("b", byDigest, secrets.Login{}, "not authorised")
	b.refuses("b", "127.0.0.1:"+strconv.Itoa(b.shopOfNothing())+"/x@"+p.digest, secrets.Login{}, "the registry does not have it")
	other := s.loginOf()
	other.Created = 9
	for _, want := range []bool{true, false} {
		if n := s.runs("b", byDigest, other); n > 0 != want {
			b.Errorf("another namespace with its own password asks %d times, want some at first", n)
		}
	}
	if n := s.runs("a", byDigest, s.loginOf()); n != 0 {
		b.Errorf("the first namespace asks again after the second, %d times", n)
	}
}

// shopOfNothing returns the port of an empty registry.
func (b *bench) shopOfNothing() int {
	s := b.shop()
	_, port, _ := strings.Cut(s.host, ":")
	n, err := strconv.Atoi(port)
	b.must(err)
	return n
}

// testPrivateOfALiar has a registry that knows the digest of a private image, and no more.
func testPrivateOfALiar(b *bench) {
	s, liar := b.shop(), b.shop()
	p := s.stock("test/program:v1")
	s.wantsUser()
	s.runs("a", p.ref, s.loginOf())
	liar.behave(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
		w.Header().Set("Docker-Content-Digest", p.digest)
		w.Header().Set("Content-Length", "7")
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte("nothing")) // the client may have hung up
		}
		return true
	})
	c := b.of("b", liar.host+"/x:v1", secrets.Login{})
	b.wants(b.Start(b.ctx(), c), types.Unavailable)
	b.refuses("b", p.ref, secrets.Login{}, "not authorised")
}

func testPrivateBecomesPublic(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	s.wantsUser()
	s.runs("a", p.ref, s.loginOf())
	s.behave(nil)
	for i, namespace := range []string{"b", "c", "a"} {
		if n := s.runs(namespace, p.ref, secrets.Login{}); n > 0 != (i == 0) {
			b.Errorf("%s asks %d times", namespace, n)
		}
	}
	s.runs("d", strings.TrimSuffix(p.ref, ":v1")+"@"+p.digest, secrets.Login{})
}

// testPrivatePullNotShared keeps a pull under way, which the task of another namespace must not join.
func testPrivatePullNotShared(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	asked, answer := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	s.behave(func(w http.ResponseWriter, r *http.Request) bool {
		if !isUser(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if r.URL.Path == p.layer {
			once()
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		return false
	})
	first := make(chan error, 1)
	go func() { first <- b.Start(b.ctx(), b.of("a", p.ref, s.loginOf())) }()
	<-asked
	b.refuses("b", p.ref, secrets.Login{}, "not authorised")
	close(answer)
	b.must(<-first)
	b.refuses("b", p.ref, secrets.Login{}, "not authorised")
}

// testLoginEchoed has a registry that answers with what it got, in a status and in a body.
func testLoginEchoed(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	wrong := s.loginOf()
	wrong.Password = "wrong-password"
	s.behave(func(w http.ResponseWriter, r *http.Request) bool {
		_, password, ok := r.BasicAuth()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"errors": [{"code": "DENIED", "message": %q}]}`, "no "+password)
		return true
	})
	b.refuses("a", p.ref, wrong, "refuses the user of secret registry-test", "its answer has the password of secret registry-test, and is left out")
}
