package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
)

// secretTask is the file of a task that gets two secrets.
const secretTask = `apiVersion: escher.dev/v1
kind: Task
name: NAME
image: IMAGE
command: [program, work, 1h]
requests: {node/NODE: 1}
secrets:
  - {name: db, dir: /run/secrets/db}
  - {name: token, env: {TOKEN: value}}
`

// TestSecrets gives real containers the values of secrets, by agents that a server knows by their
// certificates. The values are nowhere else: not in etcd, and of the files of the machines only the record
// of containerd has the variables. An agent that reaches etcd alone says what it lacks.
func TestSecrets(t *testing.T) {
	t.Parallel() // it mostly waits
	m, socket := newSealing(t)
	m.agent("a")
	m.agent("etcd")
	m.byServer(socket, "image", "make", image, built.program, built.escher)
	m.setSecret(socket, "db", "password=sesame-in-a-file", "tls.key=k")
	m.setSecret(socket, "token", "value=sesame-in-a-variable")

	id := m.applySecrets("uses", "a")
	m.must("wait", "--until", "running", id)
	m.reads(socket, id)
	before := m.processes("a", "program work")
	m.end(m.agents["a"], syscall.SIGKILL)
	m.agent("a")
	if now := m.processes("a", "program work"); len(before) != 1 || len(now) != 1 || now[0] != before[0] {
		t.Errorf("after its agent was killed: processes %v became %v", before, now)
	}
	m.reads(socket, id)
	m.nowhere("sesame-in-a-file", "")
	m.nowhere("sesame-in-a-variable", "containerd")

	m.explains(m.applySecrets("direct", "etcd"), "the agent of node etcd reaches etcd without a server, and only servers open secrets")
	if o := command(t, nil, "secret", "rm", "token", "--server", socket); o.code != 0 {
		t.Fatal(o.err)
	}
	m.explains(m.applySecrets("lacks", "a"), "has none of that name: set it with escher secret set token")
	if o := m.escher("secret", "ls"); o.code == 0 || !strings.Contains(o.err, "secret: needs a server") {
		t.Errorf("by etcd alone: %+v", o)
	}
	m.await("the log of requests has what the agent of a got", func() bool {
		o := command(t, nil, "log", "--server", socket)
		return strings.Contains(o.out, "node:a") && strings.Contains(o.out, "openSecrets")
	})
	m.must("stop", "--grace", "1s", id)
	m.escher("wait", "--timeout", patience.String(), id)
}

// newSealing starts a server that seals secrets, and returns the socket of its API. The agents reach it by their
// certificates, but for that of node etcd, and trust the authority of the test for registries.
func newSealing(t *testing.T) (m *machines, socket string) {
	t.Helper()
	m = newMachines(t)
	trusts := "SSL_CERT_FILE=" + m.certs.ca
	host := m.net.add()
	address, pki := m.net.address(host)+":7443", filepath.Join(m.dir, "pki")
	key := filepath.Join(m.dir, "secrets.key")
	socket = "unix://" + filepath.Join(m.dir, "api.sock")
	for _, args := range [][]string{{"certificate", "--host", m.net.address(host), "--out", pki}, {"secrets-key", "--out", key}} {
		if o := command(t, nil, append([]string{"admin"}, args...)...); o.code != 0 {
			t.Fatal(o.err)
		}
	}
	m.begin(host, "server", "--name", "server-1", "--data-dir", filepath.Join(m.dir, "server"), "--secrets-key", key,
		"--api", "https://"+address+","+socket, "--api-cert", filepath.Join(pki, "server.pem"), "--api-key", filepath.Join(pki, "server.key"), "--api-ca", pki)
	m.reach = func(node string) (flags, env []string) {
		if node == "etcd" {
			return slices.Concat(m.flags, []string{"--tls-cert", m.certs.server, "--tls-key", m.certs.serverKey}), nil
		}
		flags = []string{"--server", "https://" + address, "--cacert", filepath.Join(pki, "ca.pem")}
		if m.agents[node] != nil {
			return flags, []string{trusts} // it has joined, and shows its certificate
		}
		return flags, []string{"ESCHER_TOKEN=" + m.must("auth", "token", "create", "--for", "node:"+node, "--life", "10m"), trusts}
	}
	return m, socket
}

// setSecret sets a secret, which must succeed.
func (m *machines) setSecret(socket string, args ...string) {
	m.t.Helper()
	if o := command(m.t, nil, append([]string{"secret", "set", "--server", socket}, args...)...); o.code != 0 {
		m.t.Fatal(o.err)
	}
}

// applySecrets applies the task with secrets for a node, and returns its id.
func (m *machines) applySecrets(name, node string) string {
	m.t.Helper()
	path := filepath.Join(m.t.TempDir(), "task.yaml")
	text := strings.NewReplacer("NAME", name, "IMAGE", image, "NODE", node).Replace(secretTask)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return m.must("submit", "-f", path)
}

// byServer runs a command by the API of the server, and returns what it prints.
func (m *machines) byServer(socket string, args ...string) string {
	m.t.Helper()
	o := command(m.t, nil, append([]string{"--server", socket}, args...)...)
	if o.code != 0 {
		m.t.Fatalf("escher %s: exit code %d\n%s%s", strings.Join(args, " "), o.code, o.out, o.err)
	}
	return strings.TrimSuffix(o.out, "\n")
}

// reads checks the values in a container.
func (m *machines) reads(socket, id string) {
	m.t.Helper()
	to := filepath.Join(m.t.TempDir(), "password")
	m.byServer(socket, "cp", id+":/run/secrets/db/password", to)
	if got, err := os.ReadFile(to); err != nil || string(got) != "sesame-in-a-file" {
		m.t.Errorf("the file has %q, %v", got, err)
	}
	if got := m.byServer(socket, "exec", id, "--", "/bin/program", "env", "TOKEN"); got != "sesame-in-a-variable" {
		m.t.Errorf("the variable is %q", got)
	}
	if said := m.byServer(socket, "describe", id, "-o", "json") + m.byServer(socket, "describe", id) + m.byServer(socket, "events", id); strings.Contains(said, "sesame") || !strings.Contains(said, "/run/secrets/db") {
		m.t.Errorf("described as %s", said)
	}
}

// explains waits for the end of a task, which must fail for a reason.
func (m *machines) explains(id, reason string) {
	m.t.Helper()
	if o := m.escher("wait", "--timeout", patience.String(), id); o.code == 0 {
		m.t.Errorf("%s has run: %+v", id, o)
	}
	if said := m.must("describe", id); !strings.Contains(strings.Join(strings.Fields(said), " "), reason) {
		m.t.Errorf("%s says\n%s\nand not %q", id, said, reason)
	}
}

// nowhere checks that a text is in no key of etcd, and in no file of a machine but below directories of one
// name; empty means none.
func (m *machines) nowhere(text, but string) {
	m.t.Helper()
	cfg, err := etcdstore.Address{Endpoints: []string{m.flags[1]}, CACert: m.certs.ca, Cert: m.certs.client, Key: m.certs.clientKey}.Config()
	if err != nil {
		m.t.Fatal(err)
	}
	store, err := etcdstore.Dial(m.t.Context(), cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // it only reads
	all, _, err := controlplane.ListAll(m.t.Context(), store, controlplane.ListOptions{Prefix: "/"})
	if err != nil || len(all) == 0 {
		m.t.Fatalf("%d keys, %v", len(all), err)
	}
	for _, kv := range all {
		if bytes.Contains(kv.Value, []byte(text)) {
			m.t.Errorf("%s has %s", kv.Key, text)
		}
	}
	files := 0
	_ = filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // it is gone
		case d.IsDir() && d.Name() == but:
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		files++
		if content, _ := os.ReadFile(path); bytes.Contains(content, []byte(text)) {
			m.t.Errorf("%s has %s", path, text)
		}
		return nil
	})
	if files < 10 {
		m.t.Errorf("looked into %d files", files)
	}
}
