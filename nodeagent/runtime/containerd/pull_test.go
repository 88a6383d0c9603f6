package containerd_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	registry "github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

func pullTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"PullAndRun":              testPull,
		"PullOfNothing":           testPullOfNothing,
		"OnePullForAll":           testOnePull,
		"PullOutlivesWhoBeganIt":  testPullOutlives,
		"PullEndsWhenUnwanted":    testPullEnds,
		"PullShowsProgress":       testPullProgress,
		"PullGoesOnWhereItWasCut": testPullResumes,
		"PullBeginsAgainIfItMust": testPullNotResumed,
		"PullOfAFewAtOnce":        testPullFewAtOnce,
		"PullRefusesWhatIsWrong":  testPullDamaged,
		"PullGivesUpWaiting":      testPullStalls,
		"PullOfOtherPlatform":     testPullOtherPlatform,
		"PullWithPassword":        testPullBasicAuth,
		"PullWithToken":           testPullTokenAuth,
		"PullThroughMirror":       testPullMirror,
		"PinnedImageRunsAgain":    testPinned,
	}
}

func (b *bench) pulls(ref string) nodeagent.Image {
	b.Helper()
	img, err := b.Pull(b.ctx(), ref)
	b.must(err)
	return img
}

func testPull(b *bench) {
	p := b.shop().stock("test/program:v1")
	c := b.container("print", "pulled")
	c.Image = p.ref
	started, err := b.Runtime.Start(b.ctx(), c)
	b.must(err)
	if want := strings.TrimSuffix(p.ref, ":v1") + "@" + p.digest; started.Image != want {
		b.Errorf("started %s, want %s", started.Image, want)
	}
	b.wait(c.ID)
	if seen, err := b.find(b.ctx(), c.ID); err != nil || seen.Image != started.Image {
		b.Errorf("listed as %+v, %v; want image %s", seen, err, started.Image)
	}
	if img := b.pulls(p.ref); img.Name != p.ref || img.Digest != p.digest || img.Bytes < layerBytes || time.Since(img.Created) > time.Minute {
		b.Errorf("pulled %+v, want %+v", img, p)
	}
}

func testPullOfNothing(b *bench) {
	s := b.shop()
	s.stock("test/program:v1")
	for ref, class := range map[string]types.Class{
		s.host + "/test/program:v2":                                   types.NotFound,
		s.host + "/test/none:v1":                                      types.NotFound,
		"127.0.0.1:1/test/program:v1":                                 types.Unavailable,
		"Not A Reference":                                             types.Invalid,
		"escher.local/test/program:v1":                                types.NotFound,
		"escher.local/test/program@sha256:" + strings.Repeat("0", 64): types.NotFound,
	} {
		c := b.container("exit", "0")
		c.Image = ref
		b.wants(b.Start(b.ctx(), c), class)
		_, err := b.Pull(b.ctx(), ref)
		b.wants(err, class)
	}
	for ref, want := range map[string]string{
		s.host + "/test/program:v2":   "program:v2: the registry does not have it; check its name and tag; an image of your own needs no registry: load the image onto the node",
		"127.0.0.1:1/test/program:v1": "check its network and proxy, or bring the image there: load the image onto the node",
	} {
		if _, err := b.Pull(b.ctx(), ref); err == nil || !strings.HasSuffix(err.Error(), want) {
			b.Errorf("got %v, want …%s", err, want)
		}
	}
	for code, class := range map[int]types.Class{
		http.StatusInternalServerError: types.Unavailable,
		http.StatusServiceUnavailable:  types.Unavailable,
		http.StatusForbidden:           types.NotFound,
	} {
		s.behave(func(w http.ResponseWriter, r *http.Request) bool { status(code)(w, r); return true })
		_, err := b.Pull(b.ctx(), s.host+"/test/program:v1")
		b.wants(err, class)
	}
}

// testOnePull starts a hundred containers of one image. Their device does not exist, which is found
// after the pull, and saves making them.
func testOnePull(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	c := b.container("exit", "0")
	c.Image, c.Devices = p.ref, []string{"escher.test/none=1"}
	var all sync.WaitGroup
	for i := range 100 {
		c := c
		c.ID += fmt.Sprint("-", i)
		all.Go(func() { b.wants(b.Start(b.ctx(), c), types.Unavailable) })
	}
	all.Wait()
	for what, n := range s.counts() {
		if strings.HasPrefix(what, "GET /v2/test/") && n != 1 {
			b.Errorf("%s was asked for %d times, want once", what, n)
		}
	}
	if n := s.counts()["GET "+p.layer]; n != 1 {
		b.Errorf("the layer was asked for %d times, want once", n)
	}
}

func testPullOutlives(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	asked, answer := make(chan struct{}), make(chan struct{})
	s.behave(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == p.layer {
			close(asked)
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		return false
	})
	ctx, cancel := context.WithCancel(b.ctx())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := b.Pull(ctx, p.ref); first <- err }()
	<-asked
	go func() { _, err := b.Pull(b.ctx(), p.ref); second <- err }()
	runtimetest.Await(b.T, func(context.Context) (int, error) {
		n := containerd.Wanting(b.Runtime, p.ref)
		if n < 2 {
			return n, fmt.Errorf("%d want it", n)
		}
		return n, nil
	})
	cancel()
	b.wants(<-first, types.Unavailable)
	close(answer)
	b.must(<-second)
	if n := s.counts()["GET "+p.layer]; n != 1 {
		b.Errorf("the layer was asked for %d times, want once", n)
	}
}

func testPullEnds(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	asked, gone := make(chan struct{}), make(chan struct{})
	s.behave(only(p.layer, p.half(func(ctx context.Context) {
		close(asked)
		<-ctx.Done()
		close(gone)
	})))
	ctx, cancel := context.WithCancel(b.ctx())
	go func() { <-asked; cancel() }()
	_, err := b.Pull(ctx, p.ref)
	b.wants(err, types.Unavailable)
	<-gone
	if under := b.Pulling(); len(under) > 0 {
		b.Errorf("under way: %+v, want nothing", under)
	}
	s.behave(nil)
	s.pulls(p.ref)
}

func testPullProgress(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	hold := make(chan struct{})
	s.behave(only(p.layer, p.half(func(ctx context.Context) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	})))
	ended := make(chan error, 1)
	go func() { _, err := b.Pull(b.ctx(), p.ref); ended <- err }()
	seen := runtimetest.Await(b.T, func(context.Context) (nodeagent.Pulling, error) {
		under := b.Pulling()
		if len(under) != 1 || under[0].Done < layerBytes/2 || under[0].Total < layerBytes {
			return nodeagent.Pulling{}, fmt.Errorf("under way: %+v", under)
		}
		return under[0], nil
	})
	if seen.Name != p.ref || seen.Unpacking || seen.Done >= seen.Total || time.Since(seen.Since) > patience {
		b.Errorf("under way: %+v, want half of %s", seen, p.ref)
	}
	s.behave(nil)
	close(hold)
	b.must(<-ended)
}

func testPullResumes(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	s.behave(only(p.layer, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			status(http.StatusBadGateway)(w, r)
			return
		}
		p.half(func(context.Context) {})(w, r) // and hang up
	}))
	_, err := b.Pull(b.ctx(), p.ref)
	b.wants(err, types.Unavailable)
	s.mu.Lock()
	s.first, s.ranges = nil, nil
	s.mu.Unlock()
	s.pulls(p.ref)
	if want := fmt.Sprintf("bytes=%d-", len(p.content)/2); len(s.ranges) != 1 || s.ranges[0] != want {
		b.Errorf("asked for %v, want to go on with %s", s.ranges, want)
	}
}

// testPullNotResumed tests a registry that refuses to resume: the next pull requests everything
// again.
func testPullNotResumed(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	s.behave(only(p.layer, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			status(http.StatusRequestedRangeNotSatisfiable)(w, r)
			return
		}
		p.half(func(context.Context) {})(w, r) // and hang up
	}))
	for range 2 { // The first one ends with the interruption, the second with the refusal.
		_, err := b.Pull(b.ctx(), p.ref)
		b.wants(err, types.Unavailable)
	}
	before := len(s.ranges)
	s.behave(nil)
	s.pulls(p.ref)
	if before == 0 || len(s.ranges) != before {
		b.Errorf("asked to go on: %v, want the beginning after a refusal", s.ranges)
	}
}

// testPullFewAtOnce pulls an image of many layers.
func testPullFewAtOnce(b *bench) {
	const layers, most = 12, 6
	s := b.shop()
	img, _ := b.newImage()
	held := make(map[string]bool)
	for range layers {
		layer, err := random.Layer(64, registry.DockerLayer)
		b.must(err)
		digest, err := layer.Digest()
		b.must(err)
		held["/v2/test/program/blobs/"+digest.String()] = true
		img, err = mutate.AppendLayers(img, layer)
		b.must(err)
	}
	s.push(s.host+"/test/program:v1", img)
	var mu sync.Mutex
	under, peak, full := 0, 0, make(chan struct{})
	enough := sync.OnceFunc(func() { close(full) })
	s.behave(func(_ http.ResponseWriter, r *http.Request) bool {
		if !held[r.URL.Path] {
			return false
		}
		mu.Lock()
		under++
		if peak = max(peak, under); peak == most {
			enough()
		}
		mu.Unlock()
		select {
		case <-full:
		case <-r.Context().Done():
		}
		mu.Lock()
		defer mu.Unlock()
		under--
		return false
	})
	b.pulls(s.host + "/test/program:v1")
	if peak != most {
		b.Errorf("%d were asked for at once, want %d", peak, most)
	}
}

func testPullDamaged(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	s.behave(only(p.layer, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("x", len(p.content))))
	}))
	_, err := b.Pull(b.ctx(), p.ref)
	b.wants(err, types.Unavailable)
	if err == nil || !strings.Contains(err.Error(), "not what its digest says") {
		b.Errorf("got %v, want it to name the digest", err)
	}
	s.behave(nil)
	s.pulls(p.ref)
}

func testPullStalls(b *bench) {
	conf := b.host.Config(b.cluster, "n1")
	conf.PullStall = 50 * time.Millisecond
	b.Runtime = b.host.OpenWith(b.T, conf)
	s := b.shop()
	p := s.stock("test/program:v1")
	for name, path := range map[string]string{"manifest": "", "layer": p.layer} {
		s.behave(func(_ http.ResponseWriter, r *http.Request) bool {
			if path != "" && r.URL.Path != path {
				return false
			}
			<-r.Context().Done()
			return true
		})
		_, err := b.Pull(b.ctx(), p.ref)
		if !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "sent nothing for 50ms") {
			b.Errorf("%s: got %v, want Unavailable and how long it took", name, err)
		}
	}
}

func testPullOtherPlatform(b *bench) {
	p := b.shop().stock("test/program:v1", func(conf *v1.ConfigFile) { conf.Architecture = "s390x" })
	c := b.container("exit", "0")
	c.Image = p.ref
	err := b.Start(b.ctx(), c)
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "this machine is linux/") {
		b.Errorf("got %v, want Invalid and what this machine is", err)
	}
}

// login makes docker's configuration file with a password for a registry.
func (b *bench) login(t *testing.T, host string) {
	b.Helper()
	dir := b.TempDir()
	// The password is "secret".
	conf := fmt.Sprintf(`{"auths": {%q: {"auth": "dXNlcjpzZWNyZXQ="}}}`, host)
	b.must(os.WriteFile(filepath.Join(dir, "config.json"), []byte(conf), 0o600))
	t.Setenv("DOCKER_CONFIG", dir)
}

func isUser(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	return ok && user == "user" && password == "secret"
}

func (b *bench) wantsLogin(ref string) {
	b.Helper()
	_, err := b.Pull(b.ctx(), ref)
	if !types.Is(err, types.NotFound) || !strings.Contains(err.Error(), "docker login") {
		b.Errorf("got %v, want NotFound and how to log in", err)
	}
}

func testPullBasicAuth(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	s.behave(func(w http.ResponseWriter, r *http.Request) bool {
		if isUser(r) {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	b.wantsLogin(p.ref)
	b.login(b.T, s.host)
	b.pulls(p.ref)
}

// wantsToken makes the registry want a token, which its token service gives to the user.
func (s *shop) wantsToken() {
	s.behave(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token" && isUser(r):
			fmt.Fprint(w, `{"token": "abc"}`)
		case r.URL.Path != "/token" && r.Header.Get("Authorization") == "Bearer abc":
			return false
		default:
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, s.host))
			w.WriteHeader(http.StatusUnauthorized)
		}
		return true
	})
}

func testPullTokenAuth(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	s.wantsToken()
	b.wantsLogin(p.ref)
	b.login(b.T, s.host)
	b.pulls(p.ref)
}

// testPullMirror configures the mirror of a registry, as for containerd.
func testPullMirror(b *bench) {
	s := b.shop()
	p := s.stock("test/program:v1")
	dir := b.TempDir()
	b.must(os.MkdirAll(filepath.Join(dir, "far.example"), 0o700))
	b.must(os.WriteFile(filepath.Join(dir, "far.example", "hosts.toml"), fmt.Appendf(nil, "server = %q\n", "http://"+s.host), 0o600))
	conf := b.host.Config(b.cluster, "n1")
	conf.RegistryDir = dir
	b.Runtime = b.host.OpenWith(b.T, conf)
	if img := b.pulls("far.example/test/program:v1"); img.Digest != p.digest {
		b.Errorf("pulled %+v, want %s", img, p.digest)
	}
}

// testPinned moves a tag, and removes the registry.
func testPinned(b *bench) {
	s := b.shop()
	old := s.stock("test/program:v1", func(conf *v1.ConfigFile) { conf.Config.Env = []string{"TEST=old"} })
	c := b.container("id")
	c.Image = old.ref
	started, err := b.Runtime.Start(b.ctx(), c)
	b.must(err)
	moved := s.stock("test/program:v1", func(conf *v1.ConfigFile) { conf.Config.Env = []string{"TEST=new"} })
	if img := b.pulls(moved.ref); img.Digest != moved.digest {
		b.Errorf("pulled %s, want what the tag stands for now, %s", img.Digest, moved.digest)
	}
	s.close()
	for ref, want := range map[string]string{started.Image: "TEST=old\n", moved.ref: "TEST=new\n", "other.example/a@" + old.digest: "TEST=old\n"} {
		again := b.container("id")
		again.Image = ref
		if got := b.output(again, 0); !strings.HasSuffix(got, want) {
			b.Errorf("%s: it says %q, want %s", ref, got, want)
		}
	}
}
