// Command demo runs the examples on three nodes of this machine, on real containers, and leaves
// nothing behind. Each example checks its own claim; the demo exits with 0 only if all of them hold
// and the audit finds nothing. With a text it runs only wordcount, with an image only training.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	escher := flag.String("escher", "bin/escher", "the escher to use; the examples are beside it")
	text := flag.String("text", "", "a text, of which wordcount is to count the words")
	image := flag.String("training", "", "an image with python3 and numpy, in which training is to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	start := time.Now()
	if err := run(ctx, *escher, *text, *image); err != nil {
		fmt.Fprintln(os.Stderr, "demo: FAILED:", err)
		os.Exit(1)
	}
	fmt.Printf("\nall of it as claimed, and nothing left behind, in %.1f s\n", time.Since(start).Seconds())
}

// example is a program and its claim.
type example struct {
	name, shows string
	args        []string
	// script is the program that tells the story, if it is none beside escher.
	script string
}

// examples are those without further requirements; work is a directory that nodes allow to mount.
func examples(work string) []example {
	return []example{
		{name: "colocation", shows: "a task beside another that creates the resource it waits for"},
		{name: "loadbalance", shows: "six tasks, two on each node"},
		{name: "composition", shows: "pairs together, and spread"},
		{name: "gang", shows: "four at once, or none"},
		{name: "alphazero", shows: "predictors spread, generators beside theirs: by shared memory, and by TCP", args: []string{"-work", work}},
	}
}

func run(ctx context.Context, escher, text, image string) (err error) {
	escher, err = filepath.Abs(escher)
	if err != nil {
		return err
	}
	// Paths of sockets must be short.
	dir, err := os.MkdirTemp("/tmp", "escher-demo-")
	if err != nil {
		return err
	}
	work := filepath.Join(dir, "alphazero")
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	d := &demo{
		escher: escher, bin: filepath.Dir(escher), dir: dir, examples: examples(work), list: "ps", mounts: []string{work},
		nodes: []string{"--nodes", "3", "--simulated-gpus", "1"},
		note:  "; the GPU of each is simulated",
	}
	switch {
	case text != "":
		err = d.wordcount(text)
	case image != "":
		err = d.training(image)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.leaveNothing()) }()
	if err := d.up(ctx); err != nil {
		return errors.Join(err, d.down(), d.lastLog())
	}
	if err := d.show(ctx); err != nil {
		return errors.Join(err, d.down(), d.lastLog())
	}
	return d.down()
}

// demo is a cluster for the examples.
type demo struct {
	escher, bin, dir string
	examples         []example
	// list is the command that lists what ran.
	list string
	// mounts are the paths of this machine that tasks may mount.
	mounts []string
	// nodes are flags of escher dev, and note says what they are.
	nodes   []string
	note    string
	cluster *exec.Cmd
	ended   chan error
}

// wordcount runs only that example, on a text.
func (d *demo) wordcount(text string) error {
	text, err := filepath.Abs(text)
	if err != nil {
		return err
	}
	if _, err := os.Stat(text); err != nil {
		return fmt.Errorf("text: %w: deploy/text.sh fetches one", err)
	}
	work := filepath.Join(d.dir, "wordcount")
	d.list = "jobs"
	d.mounts = []string{filepath.Dir(text) + ":ro", work}
	d.examples = []example{{
		name: "wordcount", shows: "MapReduce where the data is, and anywhere",
		args: []string{"-text", text, "-work", work},
	}}
	return os.Mkdir(work, 0o755)
}

// training runs only that example, in an image. Two nodes of one core are what its gang fills.
func (d *demo) training(image string) error {
	image, err := filepath.Abs(image)
	if err != nil {
		return err
	}
	script, err := filepath.Abs("examples/training/demo.sh")
	if err != nil {
		return err
	}
	for _, path := range []string{image, script} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("training: %w: make demo-training runs it, in the root of the repository", err)
		}
	}
	work := filepath.Join(d.dir, "training")
	d.list = "jobs"
	d.mounts = []string{work}
	d.nodes, d.note = []string{"--nodes", "2", "--cpu", "1", "--memory", "1Gi"}, ""
	d.examples = []example{{
		name: "training", shows: "four ranks, preempted and killed, learn what one does",
		script: script, args: []string{image, work, filepath.Join(filepath.Dir(image), "loss.svg")},
	}}
	return os.Mkdir(work, 0o755)
}

// up starts the cluster and makes the image of the examples.
func (d *demo) up(ctx context.Context) error {
	title("nodes on this machine" + d.note)
	// down signals it: a Ctrl-C here must not reach it twice.
	args := append([]string{"dev", "--dir", d.dir, "--containerd", "private"}, d.nodes...)
	for _, m := range d.mounts {
		args = append(args, "--allow-mount", m)
	}
	d.cluster = exec.Command(d.escher, args...)
	d.cluster.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cluster.Stderr = os.Stderr
	out, err := d.cluster.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.cluster.Start(); err != nil {
		return err
	}
	ready := make(chan bool, 1)
	d.ended = make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready") {
				ready <- true
			}
		}
		d.ended <- d.cluster.Wait()
	}()
	select {
	case <-ready:
	case err := <-d.ended:
		d.cluster = nil
		return fmt.Errorf("escher dev did not start: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.command(ctx, "nodes"); err != nil {
		return err
	}
	var programs []string
	for _, x := range d.examples {
		if x.script == "" {
			programs = append(programs, filepath.Join(d.bin, x.name))
		}
	}
	if len(programs) == 0 {
		return nil
	}
	return d.command(ctx, append([]string{"image", "make", "escher.local/examples:latest"}, programs...)...)
}

// show runs the examples.
func (d *demo) show(ctx context.Context) error {
	for _, x := range d.examples {
		title(x.name + ": " + x.shows)
		if err := d.program(ctx, cmp.Or(x.script, filepath.Join(d.bin, x.name)), x.args...); err != nil {
			return err
		}
	}
	title("all that ran, and what the audit says")
	fmt.Println("   an example stops its services on purpose once it has seen enough: these are cancelled, and their exit codes mean nothing")
	if err := d.command(ctx, d.list, "--all"); err != nil {
		return err
	}
	return d.command(ctx, "audit")
}

// command runs an escher command.
func (d *demo) command(ctx context.Context, args ...string) error {
	return d.program(ctx, d.escher, args...)
}

func (d *demo) program(ctx context.Context, path string, args ...string) error {
	const limit = 15 * time.Minute // for a large text
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("ended, as it took more than %v", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "PATH="+d.bin+":"+os.Getenv("PATH"), "ESCHER_DIR="+d.dir, "ESCHER_ENDPOINTS=unix://"+filepath.Join(d.dir, "etcd/run/etcd.sock"))
	cmd.Stdout, cmd.Stderr = indented{os.Stdout}, os.Stderr
	if err := cmd.Run(); err != nil {
		err = errors.Join(err, context.Cause(ctx))
		return fmt.Errorf("%s %s: %w", filepath.Base(path), strings.Join(args, " "), err)
	}
	return nil
}

// down stops the cluster.
func (d *demo) down() error {
	if d.cluster == nil {
		return nil
	}
	if err := d.cluster.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	err := <-d.ended
	d.cluster = nil
	if err != nil {
		return fmt.Errorf("escher dev did not stop in order: %w", err)
	}
	return nil
}

// lastLog shows the end of the cluster's log.
func (d *demo) lastLog() error {
	text, err := os.ReadFile(filepath.Join(d.dir, "dev.log"))
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	fmt.Fprintf(os.Stderr, "the end of its log:\n%s\n", strings.Join(lines[max(0, len(lines)-30):], "\n"))
	return nil
}

func title(text string) { fmt.Printf("\n== %s\n", text) }

// indented indents lines.
type indented struct{ to io.Writer }

func (i indented) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Fprint(i.to, "   ", line); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}
