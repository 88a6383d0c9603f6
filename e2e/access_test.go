package e2e

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// shell is an image with a shell of this machine.
const shell = "escher.local/shell:1"

// TestAccess covers a user's access to running tasks: logs, exec, cp, images, events.
func TestAccess(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	c.start("--nodes", "2")
	archive := shellArchive(t)
	if out := c.must("image", "load", archive); out != shell {
		t.Fatalf("loaded %q", out)
	}
	if out := c.must("image", "ls"); strings.Count(out, shell) != 2 {
		t.Errorf("images:\n%s", out)
	}
	box := c.must("run", "-d", "--name", "box", shell, "--", "sh", "-c", "echo ready; exec sleep 3600")
	c.must("wait", "--until", "running", box)

	commands(t, c, box)
	terminal(t, c, box)
	files(t, c, box)
	acrossRestarts(t, c)
	keptByItsToken(t, c)
	c.must("stop", "--wait", "--grace", "100ms", box)
	c.must("audit")
}

func commands(t *testing.T, c *cluster, box string) {
	if o := c.escher("exec", box, "--", "sh", "-c", "echo out; echo err >&2; exit 9"); o.out != "out\n" || o.err != "err\n" || o.code != 9 {
		t.Errorf("%+v", o)
	}
	if o := c.escher("exec", box, "--", "/etc"); o.code != 126 || !strings.Contains(o.err, "/etc") {
		t.Errorf("exec of what is no program: %+v", o)
	}
	if o := c.escher("exec", "nobody", "--", "true"); o.code != 125 || !strings.Contains(o.err, "not found") {
		t.Errorf("exec in what is not there: %+v", o)
	}
	if o := c.escher("exec", box, "--", "no-such-command"); o.code != 127 || !strings.Contains(o.err, "no-such-command") {
		t.Errorf("%+v", o)
	}
	in := bytes.Repeat([]byte("0123456789abcde\n"), 200_000)
	cmd := exec.CommandContext(t.Context(), built.escher, "exec", "-i", box, "--", "cat")
	cmd.Env, cmd.Stdin = append(os.Environ(), "ESCHER_DIR="+c.dir), bytes.NewReader(in)
	if out, err := cmd.Output(); err != nil || !bytes.Equal(out, in) {
		t.Errorf("%d of %d bytes came back: %v", len(out), len(in), err)
	}

	// It does not outlive its client.
	cmd = exec.CommandContext(t.Context(), built.escher, "exec", box, "--", "sh", "-c", "echo begun; exec sleep 7777")
	cmd.Env = append(os.Environ(), "ESCHER_DIR="+c.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("begun\n"))); err != nil {
		t.Error(err)
	}
	if err := errors.Join(cmd.Process.Kill(), ignoreExit(cmd.Wait())); err != nil {
		t.Error(err)
	}
	if !eventually(func() bool { return !runs("sleep\x007777\x00") }) {
		t.Error("the command runs on without its client")
	}
}

func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// runs reports whether a process has this command line.
func runs(cmdline string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		if text, err := os.ReadFile(name); err == nil && string(text) == cmdline {
			return true
		}
	}
	return false
}

func eventually(is func() bool) bool {
	for range 4800 { // two minutes: machines may be busy
		if is() {
			return true
		}
		after(25 * time.Millisecond)
	}
	return false
}

// terminal uses exec -it in a terminal, resizes that, and checks that its state is restored in the
// end.
func terminal(t *testing.T, c *cluster, box string) {
	cmd := exec.CommandContext(t.Context(), built.escher, "exec", "-it", box, "--", "sh", "-c", `stty size; read line; stty size; echo "got $line"; exit 5`)
	cmd.Env = append(os.Environ(), "ESCHER_DIR="+c.dir, "TERM=vt100")
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	before := settings(t, slave)
	if err := pty.Setsize(master, &pty.Winsize{Rows: 33, Cols: 99}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := new(bytes.Buffer)
	readUntil(t, master, seen, "33 99")
	if err := pty.Setsize(master, &pty.Winsize{Rows: 44, Cols: 111}); err != nil {
		t.Fatal(err)
	}
	resized := func() bool {
		out := c.must("exec", box, "--", "sh", "-c", "for f in /dev/pts/[0-9]*; do stty size < $f; done")
		return strings.Contains(out, "44 111")
	}
	if !eventually(resized) {
		t.Error("the new size does not come")
	}
	if _, err := master.WriteString("hello\r"); err != nil {
		t.Fatal(err)
	}
	readUntil(t, master, seen, "44 111")
	readUntil(t, master, seen, "got hello")
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 5 {
		t.Errorf("it ended with %v", err)
	}
	if now := settings(t, slave); now != before {
		t.Errorf("the terminal is left as %s, it was %s", now, before)
	}
}

func settings(t *testing.T, tty *os.File) string {
	t.Helper()
	cmd := exec.Command("stty", "-g")
	cmd.Stdin = tty
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func readUntil(t *testing.T, from io.Reader, seen *bytes.Buffer, want string) {
	t.Helper()
	chunk := make([]byte, 1024)
	for !strings.Contains(seen.String(), want) {
		n, err := from.Read(chunk)
		if err != nil {
			t.Fatalf("waiting for %q, the terminal shows %q: %v", want, seen, err)
		}
		seen.Write(chunk[:n])
	}
}

// files copies to and from, past links that lead out of the container.
func files(t *testing.T, c *cluster, box string) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.MkdirAll(at("tree/sub"), 0o750), os.WriteFile(at("tree/sub/run"), []byte("#!/bin/sh\n"), 0o755),
		os.Symlink("sub/run", at("tree/link")), os.WriteFile(at("secret"), []byte("of the host"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	c.must("cp", at("tree"), box+":/tmp/new")
	if out := c.must("exec", box, "--", "sh", "-c", "cat /tmp/new/link; test -x /tmp/new/sub/run && echo runs"); out != "#!/bin/sh\nruns" {
		t.Errorf("in the container there is %q", out)
	}
	c.must("cp", box+":/tmp/new", at("back"))
	info, err := os.Stat(at("back/sub/run"))
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if to, err := os.Readlink(at("back/link")); to != "sub/run" {
		t.Errorf("%q, %v", to, err)
	}
	// The container has links to the secret of the host, and to its directory.
	c.must("exec", box, "--", "sh", "-c", "ln -s "+at("secret")+" /tmp/trap; ln -s "+dir+" /tmp/out; ln -s ../../../../../../../.."+dir+" /tmp/up")
	for _, name := range []string{"/tmp/trap", "/tmp/out/secret", "/tmp/up/secret", "/proc/1/root/tmp/trap", "/proc/self/root" + at("secret")} {
		if o := c.escher("cp", "-L", box+":"+name, at("stolen")); o.code == 0 {
			text, _ := os.ReadFile(at("stolen"))
			t.Errorf("cp of %s gives %q", name, text)
		}
	}
	for _, name := range []string{"/tmp/trap", "/tmp/out/secret", "/tmp/up/"} {
		c.escher("cp", at("tree/sub/run"), box+":"+name)
	}
	if text, err := os.ReadFile(at("secret")); err != nil || string(text) != "of the host" {
		t.Errorf("the secret of the host is %q, %v", text, err)
	}
	if o := c.escher("cp", box+":/dev/null", at("null")); o.code == 0 {
		t.Error("a device was copied")
	}
}

// acrossRestarts follows a task that fails twice and then succeeds, without an eviction: all of its
// output arrives, once.
func acrossRestarts(t *testing.T, c *cluster) {
	const script = `n=$(cat /state/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > /state/n; echo run $n; test $n -ge 3`
	args := []string{"run", "-d", "--name", "again", "--scratch", "/state", "--restart", "on-failure:5", "--restart-delay", "100ms", shell, "--", "sh", "-c", script}
	id := c.must(args...)
	if o := c.escher("logs", "-f", id); o.code != 0 || o.out != "run 1\nrun 2\nrun 3\n" {
		t.Errorf("%+v", o)
	}
	if out := c.must("events", id); !strings.Contains(out, "runs again on node-") || !strings.Contains(out, ": started") || !strings.Contains(out, "succeeded") {
		t.Errorf("events:\n%s", out)
	}
}

// keptByItsToken asks an agent without the stored token.
func keptByItsToken(t *testing.T, c *cluster) {
	sockets, err := filepath.Glob(filepath.Join(c.dir, "agents/node-1/*/api.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets: %v, %v", sockets, err)
	}
	for path, want := range map[string]string{"/healthz": "200", "/metrics": "200", "/v1/images": "401"} {
		out, err := exec.Command("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", sockets[0], "http://node"+path).Output()
		if err != nil || string(out) != want {
			t.Errorf("%s: %s, %v, want %s", path, out, err, want)
		}
	}
}

// shellArchive makes an archive, like docker save, of a shell and a few programs of this machine,
// with the libraries they need.
func shellArchive(t *testing.T) string {
	t.Helper()
	files := make(map[string]string)
	for _, name := range []string{"sh", "cat", "sleep", "stty", "ln", "test", "ls"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		files["bin/"+name] = path
		out, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Fields(string(out)) {
			if strings.HasPrefix(word, "/") {
				files[strings.TrimPrefix(word, "/")] = word
			}
		}
	}
	var layer bytes.Buffer
	out := tar.NewWriter(&layer)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := out.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o777}, nil)
	for inside, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		add(tar.Header{Name: inside, Mode: 0o755}, content)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(layer.Bytes())
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": map[string]any{"Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{shell}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	out = tar.NewWriter(&archive)
	add(tar.Header{Name: "config.json", Mode: 0o644}, config)
	add(tar.Header{Name: "layer.tar", Mode: 0o644}, layer.Bytes())
	add(tar.Header{Name: "manifest.json", Mode: 0o644}, manifest)
	path := filepath.Join(t.TempDir(), "shell.tar")
	if err := errors.Join(out.Close(), os.WriteFile(path, archive.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}
