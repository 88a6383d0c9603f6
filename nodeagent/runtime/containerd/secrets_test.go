package containerd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

func secretTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"Secrets":              testSecrets,
		"SecretsOfAUser":       testSecretsOfAUser,
		"SecretsAfterARefusal": testSecretsAfterARefusal,
		"SecretsNeverOnDisk":   testSecretsNeverOnDisk,
	}
}

// withSecrets adds a directory of secrets at a path to a container.
func withSecrets(c nodeagent.Container, target string, files map[string]string) nodeagent.Container {
	d := secrets.Dir{Target: target, Files: make(map[string][]byte)}
	for name, value := range files {
		d.Files[name] = []byte(value)
	}
	c.Secrets = append(c.Secrets, d)
	c.Mounts = append(c.Mounts, nodeagent.Mount{Target: target, TmpfsBytes: secrets.DirBytes})
	return c
}

// testSecrets reads secrets in a container, in a directory of the image's disk and in one in memory.
func testSecrets(b *bench) {
	for _, dir := range []string{"/secrets", "/run/secrets/db"} {
		c := withSecrets(b.container("cat", dir+"/password", dir+"/tls.key"), dir, map[string]string{"password": "sesame\n", "tls.key": "\xff\x01", "empty": ""})
		c.ReadOnlyRoot = true
		if got := b.output(c, 0); got != "sesame\n\xff\x01" {
			b.Errorf("%s has %q", dir, got)
		}
	}
	largest := make(map[string]string)
	for i := range types.MaxSecretEntries {
		largest[fmt.Sprint("v", i)] = strings.Repeat("x", types.MaxSecretBytes/types.MaxSecretEntries)
	}
	c := withSecrets(b.container("df", "/secrets"), "/secrets", largest)
	if got := b.output(c, 0); got != "1024 nosuid,nodev,noexec\n" {
		b.Errorf("the file system is %q", got)
	}
}

// testSecretsOfAUser: the files belong to the user of the process, and others cannot read them.
func testSecretsOfAUser(b *bench) {
	c := withSecrets(b.container("cat", "/secrets/password"), "/secrets", map[string]string{"password": "sesame"})
	c.User = "1234:77"
	if got := b.output(c, 0); got != "sesame" {
		b.Errorf("its user reads %q", got)
	}
	c = withSecrets(b.container("block"), "/secrets", map[string]string{"password": "sesame"})
	c.User = "1234:77"
	b.start(c)
	root, err := b.Root(b.Context(), c.ID)
	if err != nil {
		b.Fatal(err)
	}
	for name, want := range map[string]string{"secrets": "drwxr-xr-x", "secrets/password": "-r--------"} {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.Mode().String() != want {
			b.Errorf("%s has mode %v, %v; want %s", name, info.Mode(), err, want)
		}
	}
}

// testSecretsAfterARefusal: a start that is refused at last, and done again, gives the later values.
func testSecretsAfterARefusal(b *bench) {
	c := withSecrets(b.container("cat", "/secrets/password"), "/secrets", map[string]string{"password": "old"})
	c.MayStart = func() error { return types.Errorf(types.Unavailable, "not now") }
	if err := b.Start(b.Context(), c); !types.Is(err, types.Unavailable) {
		b.Fatal(err)
	}
	c.MayStart, c.Secrets[0].Files["password"] = nil, []byte("new")
	if got := b.output(c, 0); got != "new" {
		b.Errorf("it reads %q", got)
	}
}

// testSecretsNeverOnDisk: without a file system in memory there, nothing is written and nothing runs.
func testSecretsNeverOnDisk(b *bench) {
	c := withSecrets(b.container("ls", "/"), "/etc", map[string]string{"password": "sesame"})
	c.Mounts = nil
	if err := b.Start(b.Context(), c); err == nil || !strings.Contains(err.Error(), "is not in memory") {
		b.Errorf("got %v", err)
	}
}

// TestSecretsOverAMount: a directory in the place of a file does not go away, so a further try is of no use.
func TestSecretsOverAMount(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "escher-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root, err := os.Open("/dev/shm")
	if err == nil {
		defer root.Close()
		err = os.Mkdir(filepath.Join(dir, "password"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := secrets.Dir{Target: "/" + filepath.Base(dir), Files: map[string][]byte{"password": []byte("sesame")}}
	if err := containerd.WriteSecrets(root, d, os.Getuid(), os.Getgid()); err == nil || containerd.Refusal(err) != types.Invalid {
		t.Errorf("over a directory: %v of class %s", err, containerd.Refusal(err))
	}
	d.Target += "/none"
	if err := containerd.WriteSecrets(root, d, os.Getuid(), os.Getgid()); err == nil || containerd.Refusal(err) != types.Unavailable {
		t.Errorf("into no directory: %v", err)
	}
	d.Target, d.Files = "/"+filepath.Base(dir), map[string][]byte{"user": []byte("ann")}
	if err := containerd.WriteSecrets(root, d, os.Getuid(), os.Getgid()); err != nil {
		t.Error(err)
	}
}
