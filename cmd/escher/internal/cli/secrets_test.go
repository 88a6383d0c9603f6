package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

// digest stands for a value in an output.
func digest(value []byte) string {
	sum := sha256.Sum256(value)
	return hex.EncodeToString(sum[:4])
}

// received is the output of the command secrets NAMES...: the digests of these variables, and of all files
// in memory.
func received(c nodeagent.Container) []tasklog.Piece {
	var lines []string
	for _, e := range c.Env {
		if name, value, _ := strings.Cut(e, "="); slices.Contains(c.Command[1:], name) {
			lines = append(lines, name+" "+digest([]byte(value)))
		}
	}
	for _, d := range c.Secrets {
		for name, value := range d.Files {
			lines = append(lines, d.Target+"/"+name+" "+digest(value))
		}
	}
	slices.Sort(lines)
	return []tasklog.Piece{{Stream: tasklog.Stdout, Text: []byte(strings.Join(lines, "\n") + "\n")}}
}

// nowhere TEXT... checks that none of these texts is in a key of etcd, or in a file of the cluster: those of
// etcd with its log, of agents, of containers, of the history and of the log of all components.
func nowhere(ts *testscript.TestScript, _ bool, texts []string) {
	dir := ts.Getenv("CLUSTER")
	ctx := context.Background()
	store, err := etcdstore.Dial(ctx, etcdstore.Config{Endpoints: []string{dev.Dir(dir).Endpoint()}})
	ts.Check(err)
	defer func() { _ = store.Close() }() // nothing is left to send
	all, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: "/"})
	ts.Check(err)
	secrets, files := 0, make(map[string]int)
	contains := func(where string, content []byte) {
		for _, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				ts.Fatalf("%s has %s", where, text)
			}
		}
	}
	for _, kv := range all {
		contains(kv.Key, kv.Value)
		if k, ok := controlplane.Parse(kv.Key); ok && k.Kind == controlplane.Secrets {
			secrets++
		}
	}
	ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it is gone
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		contains(path, content)
		below, _, _ := strings.Cut(strings.TrimPrefix(path, dir+"/"), "/")
		files[below]++
		return nil
	}))
	if secrets == 0 || files["etcd"] == 0 || files["agents"] == 0 || files["history"] == 0 {
		ts.Fatalf("of %d keys, %d are secrets; files: %v", len(all), secrets, files)
	}
	fmt.Fprintf(ts.Stdout(), "%d keys, files %v\n", len(all), files)
}
