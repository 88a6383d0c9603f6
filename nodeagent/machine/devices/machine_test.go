package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/types"
)

// machine is a machine of testdata: its files below root, and a program that answers like its
// nvidia-smi.
type machine struct {
	*testing.T
	root string
	cfg  Config
}

// fakeSMI prints recorded answers: q.xml for -q -x, q-ADDRESS.xml for -i ADDRESS, topo.txt and
// list.txt. Its exit code is that in q.code. With a file hang, it hangs, with a child process. It
// logs its calls in calls.
const fakeSMI = `#!/bin/sh
dir=$(dirname "$0")
echo "$*" >>"$dir/calls"
if [ -e "$dir/hang" ]; then sleep 600 & echo $! >>"$dir/child"; sleep 600; fi
case "$*" in
"-q -x") cat "$dir/q.xml"; [ ! -e "$dir/q.code" ] || exit "$(cat "$dir/q.code")";;
"-q -x -i "*) cat "$dir/q-$4.xml";;
"topo -m") cat "$dir/topo.txt";;
"-L") cat "$dir/list.txt";;
*) echo "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."; exit 2;;
esac
`

// newMachine makes a machine of testdata.
func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{T: t, root: t.TempDir()}
	for _, f := range archive.Files {
		m.write(f.Name, string(f.Data))
	}
	m.write("smi/nvidia-smi", fakeSMI)
	if err := os.Chmod(m.path("smi/nvidia-smi"), 0o700); err != nil {
		t.Fatal(err)
	}
	m.cfg = Config{
		Root: m.root, NvidiaSMI: m.path("smi/nvidia-smi"), Timeout: 30 * time.Second, Log: zaptest.NewLogger(t),
	}
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

func (m *machine) write(name, text string) {
	m.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o700); err != nil {
		m.Fatal(err)
	}
	if err := os.WriteFile(m.path(name), []byte(text), 0o600); err != nil {
		m.Fatal(err)
	}
}

func (m *machine) read(name string) string {
	m.Helper()
	text, err := os.ReadFile(m.path(name))
	if err != nil {
		m.Fatal(err)
	}
	return string(text)
}

func (m *machine) remove(names ...string) {
	m.Helper()
	for _, name := range names {
		if err := os.RemoveAll(m.path(name)); err != nil {
			m.Fatal(err)
		}
	}
}

// find searches once, without known devices.
func (m *machine) find() []types.Device {
	m.Helper()
	return New(m.cfg).Find(m.Context(), nil)
}

// lines formats devices as in golden files.
func lines(all []types.Device) string {
	var b strings.Builder
	for _, d := range all {
		fmt.Fprintf(&b, "%s %s\n  %q %d MiB, bus %s, numa %d, links %s", d.ID, d.Resource, d.Model, d.MemoryBytes>>20, d.Bus, d.NUMA, strings.Join(d.Links, " "))
		if d.Parent != "" {
			fmt.Fprintf(&b, ", of %s", d.Parent)
		}
		b.WriteString("\n")
		if d.Unhealthy != "" {
			fmt.Fprintf(&b, "  unhealthy: %s\n", d.Unhealthy)
		}
		if (d.Unhealthy == "") != (d.UnhealthySince == 0) {
			fmt.Fprintf(&b, "  since %d\n", d.UnhealthySince)
		}
	}
	return b.String()
}
