package rest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/nodeagent/runtime/workdir"
)

// writes is hollow.ByCommand for processes that write a line each time, and copy their input.
func writes(c nodeagent.Container) (simruntime.Behaviour, error) {
	b, err := hollow.ByCommand(c)
	b.Output = []tasklog.Piece{{Stream: tasklog.Stdout, Text: fmt.Appendf(nil, "hello from attempt %d\n", c.Attempt.Number)}, {Stream: tasklog.Stderr, Text: []byte("oops\n")}}
	b.Copy = c.Stdin
	return b, err
}

// inside configures runtimes whose containers have their files in a directory, and two commands: wait
// ends with its client, which left tells; any other copies its input.
func inside(root string, left chan<- struct{}) simruntime.Config {
	return simruntime.Config{
		Root: func(string) string { return root },
		Exec: func(ctx context.Context, _ string, p nodeagent.Process) (int, error) {
			if p.Command[0] == "wait" {
				<-ctx.Done()
				left <- struct{}{}
				return 0, ctx.Err()
			}
			if _, err := fmt.Fprintln(p.Stderr, p.Command); err != nil {
				return 0, err
			}
			if p.Stdin != nil {
				if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
					return 0, err
				}
			}
			return 7, nil
		},
		Usage: func(string) cgroup.Stat { return cgroup.Stat{Memory: &cgroup.Memory{WorkingSet: 12 << 20}} },
	}
}

// raw sends a request, and returns the body of the answer, which must be 200.
func (w *world) raw(method, path, body string) (string, http.Header) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s %s: %d %v: %s", method, path, res.StatusCode, err, text)
	}
	op, _ := w.operation(method, path)
	w.asked[op.OperationID] = true
	media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if op.Responses["200"].Content[media] == nil {
		w.t.Errorf("%s %s answers with %s, which is not described", method, path, media)
	}
	return string(text), res.Header
}

// archive returns a tar archive of one file.
func archive(t *testing.T, name, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// socket opens a WebSocket, sends the messages, and returns what comes until the last message. It sends
// the input after the first answer.
func (w *world) socket(path, start, input string) (texts []string, output string) {
	w.t.Helper()
	conn, _, err := websocket.Dial(w.t.Context(), w.server.URL+path, nil)
	if err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
	defer conn.CloseNow() //nolint:errcheck // It is over.
	op, _ := w.operation("GET", path)
	w.asked[op.OperationID] = true
	send := func(kind websocket.MessageType, text string) {
		if err := conn.Write(w.t.Context(), kind, []byte(text)); err != nil {
			w.t.Fatal(err)
		}
	}
	send(websocket.MessageText, start)
	send(websocket.MessageBinary, "\x00"+input)
	send(websocket.MessageText, `{"end": true}`)
	for {
		kind, data, err := conn.Read(w.t.Context())
		if err != nil {
			w.t.Fatalf("%s: %v after %s %q", path, err, texts, output)
		}
		if kind == websocket.MessageBinary {
			output += string(data[1:])
			continue
		}
		texts = append(texts, string(data))
		if strings.Contains(string(data), `"exit"`) || strings.Contains(string(data), `"error"`) {
			return texts, output
		}
	}
}

// containers calls the operations on the containers of attempts.
func (w *world) containers() {
	t := w.t
	w.want("POST", in+"/tasks", `{"tasks": [{"id": "box", "requests": {"cpu": "1"}, "spec": {"image": "x:1", "command": ["stop", "1ms"], "stdin": true}}]}`)
	w.want("GET", in+"/wait?id=box&until=running&timeout=1m", "")
	box := in + "/tasks/box"
	node := w.want("GET", box, "")["node"].(string)
	if text, _ := w.raw("GET", box+"/logs", ""); text != "hello from attempt 1\noops\n" {
		t.Errorf("logs: %q", text)
	}
	text, header := w.raw("GET", box+"/logs?marks=true&stream=stderr&follow=false&since=2026-01-02T03:04:05Z", "")
	if !strings.Contains(text, "oops") || strings.Contains(text, "hello") || header.Get("Escher-Log-Position") == "" {
		t.Errorf("errors: %q %v", text, header)
	}
	if got := items(w.want("GET", box+"/attempts", ""), "node"); !slices.Equal(got, []string{node}) {
		t.Errorf("attempts: %s", got)
	}
	if got := items(w.want("GET", box+"/events", ""), "step"); !slices.Contains(got, "started") {
		t.Errorf("events: %s", got)
	}
	if got := w.want("GET", box+"/usage?since=1m", ""); fmt.Sprint(got["memoryBytes"]) != "12582912" {
		t.Errorf("usage: %v", got)
	}
	w.want("POST", box+"/signal", `{"signal": "USR1"}`)
	if texts, out := w.socket(box+"/exec", `{"start": {"command": ["cat", "-"], "input": true}}`, "typed"); !strings.Contains(out, "[cat -]") || !strings.Contains(out, "typed") || texts[len(texts)-1] != `{"exit":7}` {
		t.Errorf("exec: %s %q", texts, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // it ends with the listener
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if _, out := w.socket(box+"/ports/"+port, `{"start": {"input": true}}`, "ping"); out != "ping" {
		t.Errorf("the port echoes %q", out)
	}
	w.raw("PUT", box+"/files?path=/", archive(t, "note", "written"))
	text, _ = w.raw("GET", box+"/files?path=/note", "")
	if _, err := tar.NewReader(strings.NewReader(text)).Next(); err != nil || !strings.Contains(text, "written") {
		t.Errorf("files: %v %q", err, text)
	}
	if got := w.want("GET", box+"/files/stat?path=/note", ""); fmt.Sprint(got["size"]) != "7" {
		t.Errorf("stat: %v", got)
	}
	// Its input has ended, so that it ends.
	if texts, _ := w.socket(box+"/attach", `{"start": {"input": true}}`, "last words"); texts[len(texts)-1] != `{"exit":0}` {
		t.Errorf("attach: %s", texts)
	}
	w.want("GET", in+"/wait?id=box&timeout=1m", "")
	if text, _ := w.raw("GET", box+"/logs?attempt=1&node="+node, ""); !strings.Contains(text, "last words") {
		t.Errorf("logs of the node: %q", text)
	}
}

// images calls the operations on images, and on what nodes measure.
func (w *world) images() {
	const n = "/v1/nodes/n00"
	w.want("GET", n+"/images", "")
	if got := w.want("POST", n+"/images/pull", `{"image": "x:1"}`); got["name"] != "x:1" {
		w.t.Errorf("pulled %v", got)
	}
	w.want("GET", n+"/images/pull?image=x:1", "")
	dir := w.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("its text"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	tree, err := workdir.Scan(w.t.Context(), dir)
	if err != nil {
		w.t.Fatal(err)
	}
	img, err := tree.Image(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var packed strings.Builder
	if err := img.Write(w.t.Context(), &packed, img.Digests()); err != nil {
		w.t.Fatal(err)
	}
	layers, _ := json.Marshal(img.Digests())
	lacking := func() string {
		return fmt.Sprint(w.want("POST", n+"/workdirs/lacking", fmt.Sprintf(`{"layers": %s}`, layers))["layers"])
	}
	if got := lacking(); got == "[]" {
		w.t.Error("no layer is lacking before it is loaded")
	}
	w.raw("POST", n+"/images", packed.String())
	if got := lacking(); got != "[]" {
		w.t.Errorf("lacking after it was loaded: %s", got)
	}
	if got := w.want("GET", n+"/workdirs/layers?image="+img.Name, ""); len(got["layers"].([]any)) != len(img.Digests()) {
		w.t.Errorf("layers: %v", got)
	}
	if text, _ := w.raw("GET", n+"/workdirs?image="+img.Name+"&layer="+img.Digests()[0], ""); !strings.Contains(text, "manifest") {
		w.t.Errorf("exported %d bytes", len(text))
	}
	w.want("GET", n+"/usage", "")
	w.want("GET", n+"/usage/tasks?since=1m", "")
}

// TestFollowed follows the output and the events of a task until it ends, each as it comes.
func TestFollowed(t *testing.T) {
	w := newWorld(t)
	w.want("POST", in+"/tasks", `{"tasks": [{"id": "box", "requests": {"cpu": "1"}, "spec": {"image": "x:1", "command": ["stop", "1ms"]}}]}`)
	w.want("GET", in+"/wait?id=box&until=running&timeout=1m", "")
	res, err := http.Get(w.server.URL + in + "/tasks/box/logs?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, len("hello from attempt 1\noops\n"))
	if _, err := io.ReadFull(res.Body, first); err != nil { // while the task runs
		t.Fatal(err)
	}
	steps := w.events("GET", in+"/tasks/box/events", "", "")
	_, last := until(t, steps, "", func(e event) bool { return e.kind == "step" && strings.Contains(e.data, `"started"`) })
	w.want("POST", in+"/tasks/box/stop", `{}`)
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	all, _ := until(t, w.events("GET", in+"/tasks/box/events?attempt=1", last, ""), "", func(e event) bool { return e.kind == "over" })
	if got := fmt.Sprint(all); strings.Contains(got, `"started"`) || !strings.Contains(got, `"released"`) {
		t.Errorf("after event %s: %s", last, got)
	}
	// An attempt is killed, and another one follows: the output of the first is found.
	w.want("POST", in+"/tasks", `{"tasks": [{"id": "two", "requests": {"cpu": "1"}, "spec": {"image": "x:1", "command": ["stop", "1ms"]}}]}`)
	w.want("GET", in+"/wait?id=two&until=running&timeout=1m", "")
	w.want("POST", in+"/tasks/two/evict", `{"attempt": 1}`)
	for deadline := time.Now().Add(time.Minute); fmt.Sprint(w.want("GET", in+"/tasks/two", "")["attempt"]) != "2"; {
		if time.Now().After(deadline) {
			t.Fatal("no second attempt")
		}
	}
	if text, _ := w.raw("GET", in+"/tasks/two/logs?attempt=1", ""); !strings.HasPrefix(text, "hello from attempt 1\n") {
		t.Errorf("the first attempt wrote %q", text)
	}
}

// TestClientGone ends what nodes do for a client that has gone.
func TestClientGone(t *testing.T) {
	w := newWorld(t)
	w.want("POST", in+"/tasks", `{"tasks": [{"id": "box", "requests": {"cpu": "1"}, "spec": {"image": "x:1", "command": ["stop", "1ms"]}}]}`)
	w.want("GET", in+"/wait?id=box&until=running&timeout=1m", "")
	conn, _, err := websocket.Dial(t.Context(), w.server.URL+in+"/tasks/box/exec", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"start": {"command": ["wait"]}}`)); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseNow(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.left:
	case <-time.After(time.Minute):
		t.Error("the command runs on")
	}
	ctx, leave := context.WithCancel(t.Context())
	steps := w.eventsOf(ctx, "GET", in+"/tasks/box/events", "", "")
	until(t, steps, "", func(e event) bool { return strings.Contains(e.data, `"started"`) })
	leave()
	w.server.Close() // waits for the requests that are served
}

// TestPulls follows the progress of a pull.
func TestPulls(t *testing.T) {
	w := newWorld(t)
	all, _ := until(t, w.events("POST", "/v1/nodes/n01/images/pull", "", `{"image": "x:1"}`), "", func(e event) bool { return e.kind == "result" })
	if e := all[len(all)-1]; !strings.Contains(e.data, `"x:1"`) {
		t.Errorf("pulled: %+v", all)
	}
}

// TestRefusedByNodes checks that wrong requests to nodes are refused, as others are.
func TestRefusedByNodes(t *testing.T) {
	w := newWorld(t)
	w.want("POST", in+"/tasks", `{"tasks": [{"id": "one", "requests": {"cpu": "99"}, "spec": {"image": "x:1"}}, {"id": "run", "spec": {"image": "x:1", "command": ["stop", "1ms"]}}]}`)
	w.want("GET", in+"/wait?id=run&until=running&timeout=1m", "")
	w.refuses([]refusal{
		{"GET", in + "/tasks/one/logs", "", 412, "precondition", "", "its phase is pending"},
		{"GET", in + "/tasks/one/logs?attempt=2", "", 412, "precondition", "", "one"},
		{"GET", in + "/tasks/run/logs?attempt=9", "", 404, "not found", "", "it has had 1"},
		{"GET", in + "/tasks/run/logs?attempt=-1", "", 422, "invalid", "attempt", "attempt"},
		{"GET", in + "/tasks/run/logs?node=n00", "", 400, "invalid", "attempt", "give both"},
		{"GET", in + "/tasks/gone/logs?node=n00&attempt=1", "", 404, "not found", "", "node n00 has none"},
		{"GET", in + "/tasks/run/logs?node=n99&attempt=1", "", 404, "not found", "", "n99"},
		{"GET", in + "/tasks/run/logs?node=a%20b&attempt=1", "", 400, "invalid", "node", "a b"},
		{"GET", in + "/tasks/run/logs?stream=stdout", "", 400, "invalid", "marks", "add marks=true"},
		{"GET", in + "/tasks/run/logs?colour=red", "", 422, "invalid", "colour", "colour"},
		{"GET", in + "/tasks/run/events?node=n00&attempt=7", "", 404, "not found", "", "remembers none"},
		{"GET", in + "/tasks/run/usage?since=soon", "", 400, "invalid", "since", "not a time"},
		{"GET", in + "/tasks/run/exec", "", 400, "invalid", "Upgrade", "open a WebSocket"},
		{"GET", "/v1/namespaces/%2E%2E/tasks/run/logs?node=n00&attempt=1", "", 400, "invalid", "namespace", ".."},
		{"GET", in + "/tasks/a%2Fb/logs?node=n00&attempt=1", "", 400, "invalid", "id", "a/b"},
		{"GET", in + "/tasks/a%20b/attempts", "", 400, "invalid", "id", "a b"},
		{"GET", in + "/tasks/run/files", "", 422, "invalid", "path", "path"},
		{"GET", in + "/tasks/run/files?path=/nothing", "", 404, "not found", "", "/nothing"},
		{"PUT", in + "/tasks/run/files?path=/", strings.Repeat("garbage", 100_000), 400, "invalid", "", "archive"},
		{"POST", in + "/tasks/run/signal", `{"signal": "USR9"}`, 400, "invalid", "signal", "USR9"},
		{"GET", "/v1/nodes/n99/images", "", 404, "not found", "", "n99"},
		{"POST", "/v1/nodes/n00/images", strings.Repeat("garbage", 100_000), 400, "invalid", "", "archive"},
		{"POST", "/v1/nodes/n00/images/pull", `{}`, 400, "invalid", "image", "name one"},
		{"POST", "/v1/nodes/n00/images/pull", `{"image": "x:1", "force": true}`, 400, "invalid", "body", "force"},
		{"POST", "/v1/nodes/n00/workdirs/lacking", `{"layers": ["x"]}`, 400, "invalid", "layers", "sha256"},
	})
}
