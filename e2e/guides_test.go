package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/oidc/oidctest"
)

// guides are the pages whose commands TestGuides runs, in order, below docs.
func guides() []string {
	return []string{"tutorial.md", "coming-from/slurm.md", "coming-from/kubernetes.md", "coming-from/nomad.md", "coming-from/ray.md", "coming-from/docker.md"}
}

// TestGuides runs every line of the sh blocks of the guides. The text block after an sh block is what
// all commands of that block print, line by line and in order: … stands for anything within a line, and
// a line of … alone for any lines; gaps between columns may be of any width. A yaml block that begins with a comment is the file of that name. A
// line that ends with "# fails" has to fail.
func TestGuides(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t, "--nodes", "2", "--cpu", "2", "--label", "node-1:zone=a", "--label", "node-2:zone=b")
	env := c.guideEnv()
	for _, page := range guides() {
		text, err := os.ReadFile(filepath.Join("../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(page, func(t *testing.T) { follow(t, env, string(text)) })
	}
}

// guideEnv is the environment of the commands of a guide.
func (c *cluster) guideEnv() []string {
	return append(os.Environ(), "ESCHER_DIR="+c.dir, "PATH="+filepath.Dir(built.escher)+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

// TestUsersGuide is TestGuides for the tutorial of several users, whose server has an address.
func TestUsersGuide(t *testing.T) {
	t.Parallel()
	_, env := startedAt(t)
	text, err := os.ReadFile("../docs/tutorial-users.md")
	if err != nil {
		t.Fatal(err)
	}
	follow(t, env, string(text))
}

// TestLoginGuide is TestGuides for logins at an issuer, whose user confirms each code. Each command renews
// its token, until the issuer ends the login.
func TestLoginGuide(t *testing.T) {
	t.Parallel()
	issuer := oidctest.Start(t, time.Now)
	issuer.Set(func(s *oidctest.State) { s.Life, s.Claims = 30*time.Second, map[string]any{"groups": []string{"ml"}} })
	c, env := startedAt(t, "--oidc-issuer", issuer.URL, "--oidc-client-id", oidctest.ClientID, "--oidc-ca", issuer.CA)
	c.must("image", "make", "--applets", "busybox", "escher.local/bb:1", "/usr/bin/busybox")
	text, err := os.ReadFile("../docs/login.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, found := strings.Cut(string(text), "## Use it\n")
	first, second, ends := strings.Cut(page, "## The end of a login\n")
	if !found || !ends {
		t.Fatal("the page has other headings")
	}
	env = append(env, "ISSUER_CA="+issuer.CA)
	follow(t, env, first)
	if n := issuer.Asked("/token"); n < 6 { // two for the login, and one for each command
		t.Errorf("the tokens were renewed %d times", n-2)
	}
	issuer.Set(func(s *oidctest.State) { s.Ended = true })
	settings := filepath.Join(configOf(env), "escher", "config.yaml")
	config, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	// The token that the last command got expires.
	late := regexp.MustCompile(`expires: .*`).ReplaceAll(config, []byte(`expires: "2026-01-02T03:04:05Z"`))
	if err := os.WriteFile(settings, late, 0o600); err != nil {
		t.Fatal(err)
	}
	follow(t, env, second)
}

// configOf returns the directory of settings in an environment.
func configOf(env []string) (dir string) {
	for _, x := range env {
		if value, ok := strings.CutPrefix(x, "XDG_CONFIG_HOME="); ok {
			dir = value
		}
	}
	return dir
}

// startedAt starts a cluster that users reach at SERVER, and returns it with the environment of a guide.
func startedAt(t *testing.T, args ...string) (*cluster, []string) {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	certs, address := t.TempDir(), "https://localhost:"+port
	if out, err := exec.Command(built.escher, "admin", "certificate", "--host", "localhost", "--out", certs).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := started(t, append(args, "--nodes", "2", "--cpu", "2", "--api", address, "--api-cert", filepath.Join(certs, "server.pem"), "--api-key", filepath.Join(certs, "server.key"))...)
	return c, append(c.guideEnv(), "SERVER="+address, "CERTS="+certs, "XDG_CONFIG_HOME="+t.TempDir())
}

// follow runs the commands of a page in a directory of its own.
func follow(t *testing.T, env []string, text string) {
	t.Helper()
	dir, printed, ran := t.TempDir(), "", 0
	for _, block := range regexp.MustCompile("(?ms)^```(sh|text|yaml)\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		switch kind, body := block[1], block[2]; kind {
		case "yaml":
			if name := regexp.MustCompile(`\A# (\S+)\n`).FindStringSubmatch(body); name != nil {
				if err := os.WriteFile(filepath.Join(dir, name[1]), []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		case "sh":
			printed = ""
			for line := range strings.Lines(body) {
				printed += runLine(t, env, dir, line)
				ran++
			}
		case "text":
			if !shows(body, printed) {
				t.Errorf("the page shows\n%s\nand its commands print\n%s", body, printed)
			}
		}
	}
	if ran == 0 {
		t.Error("the page has no commands")
	}
}

// shows reports whether a text block shows what was printed, all lines of it, in order.
func shows(block, printed string) bool {
	columns := regexp.MustCompile("  +") // the page may align what stands below an abbreviated id
	var pattern strings.Builder
	for line := range strings.Lines(block) {
		if line == "…\n" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		line = columns.ReplaceAllString(regexp.QuoteMeta(line), "  +")
		pattern.WriteString(strings.ReplaceAll(line, "…", ".*"))
	}
	// What takes long on a slow machine says so.
	waits := regexp.MustCompile(`(?m)^escher: (\S+ waits: |\d+ of \d+ tasks wait; |node-\d+: ).*\n`)
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(waits.ReplaceAllString(printed, ""))
}

// TestShows checks what counts as shown, for the pages are compared by it.
func TestShows(t *testing.T) {
	t.Parallel()
	const printed = "a-1 runs\nb-2 waits for cpu\nc-3 runs\n"
	for block, want := range map[string]bool{
		printed: true,
		"a-… runs\nb-… waits …\nc-3 runs\n": true,
		"a-1 runs\nb-2  waits for cpu\n…\n": false, // a gap
		"a-1 runs\n…\n":                     true,
		"…\nc-3 runs\n":                     true,
		"…\nb-2 waits for cpu\n…\n":         true,
		"…\na-1 runs\n…\nc-3 runs\n…\n":     true,
		"…\n":                               true,
		"a-1 runs\n":                        false, // lines are missing
		"a-1\n…\n":                          false, // the end of a line
		"1 runs\n…\n":                       false, // its beginning
		"…\nc-3 runs\n…\na-1 runs\n…\n":     false, // the order
		"":                                  false,
	} {
		if shows(block, printed) != want {
			t.Errorf("%q shows: %v", block, !want)
		}
	}
}

// runLine runs a line of a shell and returns what it prints.
func runLine(t *testing.T, env []string, dir, line string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", line)
	cmd.Dir, cmd.Env = dir, env
	out, err := cmd.CombinedOutput()
	if fails := strings.HasSuffix(strings.TrimSpace(line), "# fails"); (err != nil) != fails {
		t.Errorf("%s%v\n%s", line, err, out)
	}
	return string(out)
}
