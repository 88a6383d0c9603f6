package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// http asks the HTTP API of the cluster by curl, as the user of a command before it, and returns the answer.
func (c *cluster) http(as []string, args ...string) string {
	c.t.Helper()
	args = append(as, append([]string{"curl", "-sS", "--unix-socket", filepath.Join(c.dir, "run/api.sock")}, args...)...)
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		c.t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

// ask returns an answer of the HTTP API.
func (c *cluster) ask(path string, args ...string) (answer map[string]any) {
	c.t.Helper()
	text := c.http(nil, append(args, "http://escher/v1"+path)...)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		c.t.Fatalf("%s: %v: %s", path, err, text)
	}
	return answer
}

// events returns the events of a watch up to synced.
func (c *cluster) events(header string) (text string) {
	c.t.Helper()
	cmd := exec.Command("curl", "-sSN", "--unix-socket", filepath.Join(c.dir, "run/api.sock"), "-H", header, "http://escher/v1/namespaces/default/watch")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "event: synced"; {
		text += lines.Text() + "\n"
	}
	_ = cmd.Process.Kill() // a watch does not end by itself
	_ = cmd.Wait()
	return text
}

// inside reads the output of a running container, runs a command in it, copies a file out of it, and
// lists the images of its node, by the HTTP API alone.
func (c *cluster) inside(file string) {
	c.t.Helper()
	c.ask("/namespaces/default/tasks", "-H", "Content-Type: application/json", "-d", fmt.Sprintf(`{"tasks": [{"id": "box", "spec": {"image": %q, "command": ["/bin/program", "tick", "/done", "0"]}}]}`, image))
	c.ask("/namespaces/default/wait?until=running&timeout=2m&id=box")
	if got := fmt.Sprint(c.ask("/namespaces/default/tasks/box/events")["items"]); !strings.Contains(got, "started") {
		c.t.Errorf("events: %s", got)
	}
	if got := c.ask("/namespaces/default/tasks/box/files/stat?path=/bin/program"); got["size"] == 0.0 {
		c.t.Errorf("stat: %v", got)
	}
	c.http(nil, "-o", file+".tar", "http://escher/v1/namespaces/default/tasks/box/files?path=/bin/program")
	if out, err := exec.Command("tar", "tf", file+".tar").CombinedOutput(); err != nil || string(out) != "program\n" {
		c.t.Errorf("files: %v: %s", err, out)
	}
	c.ask("/namespaces/default/tasks/box/signal", "-H", "Content-Type: application/json", "-d", `{"signal": "SIGKILL"}`)
	c.ask("/namespaces/default/wait?timeout=2m&id=box")
	c.http(nil, "http://escher/v1/namespaces/default/tasks/box/logs?follow=true") // it ends, as the task has
	node := c.ask("/namespaces/default/tasks/box")["node"].(string)
	if got := fmt.Sprint(c.ask("/nodes/" + node + "/images")["items"]); !strings.Contains(got, image) {
		c.t.Errorf("images: %s", got)
	}
	if got := c.ask("/audit"); fmt.Sprint(got["findings"]) != "[]" {
		c.t.Errorf("audit: %v", got)
	}
}

// TestHTTPAPI runs a container by the HTTP API alone, and follows tasks by it across a kill of the cluster.
func TestHTTPAPI(t *testing.T) {
	c := started(t)
	file := filepath.Join(t.TempDir(), "app.yaml")
	doc := fmt.Sprintf("apiVersion: escher.dev/v1\nkind: Task\nname: three\nimage: %s\ncommand: [/bin/program, exit, \"3\"]\n", image)
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	done := c.ask("/namespaces/default/apply", "--data-binary", "@"+file)
	changes, _ := done["changes"].([]any)
	if len(changes) != 1 {
		t.Fatalf("applied: %v", done)
	}
	id := changes[0].(map[string]any)["id"].(string)
	if got := c.ask("/namespaces/default/wait?timeout=2m&id=" + id); got["complete"] != true {
		t.Fatalf("%s has not ended: %v", id, got)
	}
	task := c.ask("/namespaces/default/tasks/" + id)
	if task["phase"] != "failed" || task["exitCode"] != 3.0 {
		t.Errorf("the task is %v", task)
	}
	var listed []map[string]any
	if err := json.Unmarshal([]byte(c.must("ps", "-a", "-o", "json")), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed) != 1 || !reflect.DeepEqual(listed[0], task) {
		t.Errorf("escher ps has %v, the API %v", listed, task)
	}
	if why := c.ask("/namespaces/default/tasks/" + id + "/why"); !strings.Contains(fmt.Sprint(why["summary"]), "3") {
		t.Errorf("why: %v", why)
	}

	c.inside(file)

	// The API refuses another user, even if the mode of the socket lets that user connect.
	run := filepath.Join(c.dir, "run")
	for _, path := range []string{c.dir, run} {
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(run, "api.sock"), 0o666); err != nil {
		t.Fatal(err)
	}
	text := c.http([]string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}, "http://escher/v1/nodes")
	if !strings.Contains(text, `"status":403`) || strings.Contains(text, "node-1") {
		t.Errorf("user 65534 gets %s", text)
	}

	revision := strconv.FormatInt(c.revision(), 10)
	c.kill()
	c.start()
	second := c.must("run", "-d", "--name", "second", image, "--", "/bin/program", "exit", "0")
	c.must("wait", second)
	text = c.events("Last-Event-ID: " + revision)
	if strings.Count(text, "event: task") != 1 || !strings.Contains(text, second) {
		t.Errorf("since revision %s: %s", revision, text)
	}
	c.must("audit")
}
