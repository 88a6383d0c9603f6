package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/types"
)

// counter is the application, outside of the cluster.
type counter struct {
	places
	client *escher.Client
	nodes  []string
	// size is the size of the text, in bytes.
	size int64
}

// withCounter runs f when the chunks are stored and served, with the expected counts of an
// independent count.
func withCounter(ctx context.Context, at places, f func(c *counter, want map[string]int) error) error {
	client, err := escher.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	c := &counter{places: at, client: client}
	stop, err := c.prepare(ctx)
	if err != nil {
		return err
	}
	defer stop()
	want, err := c.independent(ctx)
	if err != nil {
		return err
	}
	return f(c, want)
}

// compare counts the text twice, with mappers where the data is and with mappers placed at random,
// and checks both against an independent count.
func compare(ctx context.Context, at places) error {
	return withCounter(ctx, at, func(c *counter, want map[string]int) error {
		fmt.Printf("%.1f MB of text, in %d chunks in the directories of %d nodes\n", float64(c.size)/1e6, c.chunks, len(c.nodes))
		dice := rand.New(rand.NewPCG(1, 2))
		anywhere := func(int) escher.Requests { return one("node/" + c.nodes[dice.IntN(len(c.nodes))]) }

		fmt.Printf("%-20s %-22s %s\n", "mappers are placed", "chunks read locally", "map and reduce")
		local, err := c.shown(ctx, "by-data", near, want)
		if err != nil {
			return err
		}
		if _, err := c.shown(ctx, "at-random", anywhere, want); err != nil {
			return err
		}
		fmt.Println("(one machine: remote chunks come over its loopback, and most of the time goes into starting 30 containers; the share tells)")
		if local != c.chunks {
			return fmt.Errorf("%d of %d chunks were read locally by mappers that requested them", local, c.chunks)
		}
		fmt.Printf("both counts equal that of coreutils: %d different words, %q most often\n", len(want), most(want))
		return nil
	})
}

// near requests the node of a chunk.
func near(chunk int) escher.Requests {
	// Policy, the second line: a task that needs the data runs where it is.
	return one("data-" + strconv.Itoa(chunk))
}

// shown counts once and prints the result.
func (c *counter) shown(ctx context.Context, run string, placed func(chunk int) escher.Requests, want map[string]int) (local int, err error) {
	local, took, err := c.mapReduce(ctx, run, placed, want)
	if err == nil {
		fmt.Printf("%-20s %-22s %.1f s\n", run, fmt.Sprintf("%2d of %d, %3d %%", local, c.chunks, 100*local/c.chunks), took.Seconds())
	}
	return local, err
}

// one returns a request for one of a resource.
func one(name string) escher.Requests {
	return escher.MustRequests(map[string]string{name: "1"})
}

// prepare stores the chunks on the nodes in turn, and makes every node serve its own.
func (c *counter) prepare(ctx context.Context) (stop func(), err error) {
	state, err := c.client.State(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range state.Nodes {
		c.nodes = append(c.nodes, n.Name)
		if err := os.MkdirAll(filepath.Join(c.work, n.Name), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Join(c.work, "out"), 0o755); err != nil {
		return nil, err
	}
	cuts, err := c.cuts()
	if err != nil {
		return nil, err
	}
	loaders := make([]escher.Task, c.chunks)
	for i := range loaders {
		on := one("node/" + c.nodes[i%len(c.nodes)])
		loaders[i] = c.task(on, "load", strconv.Itoa(i), filepath.Base(c.text), strconv.FormatInt(cuts[i], 10), strconv.FormatInt(cuts[i+1], 10))
	}
	if err := c.run(ctx, "load", loaders); err != nil {
		return nil, err
	}
	c.size = cuts[c.chunks]
	return c.servers(ctx)
}

// cuts returns the bounds of the chunks: about equal, and at ends of lines.
func (c *counter) cuts() ([]int64, error) {
	text, err := os.Open(c.text)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	info, err := text.Stat()
	if err != nil {
		return nil, err
	}
	cuts := make([]int64, c.chunks+1)
	for i := 1; i < c.chunks; i++ {
		at := info.Size() * int64(i) / int64(c.chunks)
		rest, err := bufio.NewReader(io.NewSectionReader(text, at, info.Size()-at)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		cuts[i] = at + int64(len(rest))
	}
	cuts[c.chunks] = info.Size()
	return cuts, nil
}

// servers runs a server on every node, and returns a function to stop them.
func (c *counter) servers(ctx context.Context) (stop func(), err error) {
	all := make([]escher.Task, len(c.nodes))
	for i, node := range c.nodes {
		all[i] = c.task(one("node/"+node), "serve")
		all[i].Spec.Ports = []escher.Port{{Name: "data"}}
	}
	job, err := c.client.Submit(ctx, escher.Job{Name: "serve", Tasks: all})
	if err != nil {
		return nil, err
	}
	stop = func() {
		for _, id := range job.Tasks {
			_ = c.client.Stop(context.WithoutCancel(ctx), id, escher.Because("all is counted"))
		}
		_, _ = c.client.Wait(context.WithoutCancel(ctx), escher.UntilEnded, job.Tasks...)
	}
	// The first run must not include their start.
	if _, err := c.client.Wait(ctx, escher.UntilRunning, job.Tasks...); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// task returns a task of this program.
func (c *counter) task(requests escher.Requests, command ...string) escher.Task {
	return escher.Task{
		Name: command[0], Requests: requests,
		Spec: escher.Spec{
			Image: "escher.local/examples:latest", Command: append([]string{"/bin/wordcount"}, command...),
			Mounts: []escher.Mount{
				{Source: filepath.Dir(c.text), Target: textDir, ReadOnly: true},
				{Source: filepath.Join(c.work, "{node}"), Target: dataDir},
				{Source: filepath.Join(c.work, "out"), Target: outDir},
			},
		},
	}
}

// run runs tasks as a job, and returns when they have succeeded.
func (c *counter) run(ctx context.Context, name string, tasks []escher.Task) error {
	job, err := c.client.Submit(ctx, escher.Job{Name: name, Tasks: tasks})
	if err != nil {
		return err
	}
	statuses, err := c.client.Wait(ctx, escher.UntilEnded, job.Tasks...)
	if err != nil {
		return err
	}
	for id, s := range statuses {
		if s.Phase != types.Succeeded {
			return fmt.Errorf("task %s %s with exit code %d: %s; see escher logs %s", id, s.Phase, s.ExitCode, s.Reason, id)
		}
	}
	return nil
}

// mapReduce counts once, checks the counts, and returns how many chunks were read locally,
// and how long it took.
func (c *counter) mapReduce(ctx context.Context, run string, placed func(chunk int) escher.Requests, want map[string]int) (local int, took time.Duration, err error) {
	begin := time.Now()
	mappers := make([]escher.Task, c.chunks)
	for i := range mappers {
		mappers[i] = c.task(placed(i), "map", run, strconv.Itoa(i), strconv.Itoa(c.reducers))
	}
	if err := c.run(ctx, run+"-map", mappers); err != nil {
		return 0, 0, err
	}
	parts := make([]escher.Task, c.reducers)
	for i := range parts {
		parts[i] = c.task(nil, "reduce", run, strconv.Itoa(i), strconv.Itoa(c.chunks))
	}
	if err := c.run(ctx, run+"-reduce", parts); err != nil {
		return 0, 0, err
	}
	took = time.Since(begin)
	if local, err = c.local(run); err != nil {
		return 0, 0, err
	}
	got, err := c.counted(run)
	if err != nil {
		return 0, 0, err
	}
	if !maps.Equal(got, want) {
		return 0, 0, fmt.Errorf("the %s run counted %d different words, coreutils %d: %s", run, len(got), len(want), difference(got, want))
	}
	return local, took, nil
}

// local returns how many mappers of a run read from their own node.
func (c *counter) local(run string) (int, error) {
	n := 0
	for i := range c.chunks {
		text, err := os.ReadFile(filepath.Join(c.work, "out", fmt.Sprintf("%s-mapped-%d", run, i)))
		if err != nil {
			return 0, err
		}
		if strings.HasSuffix(string(text), " local") {
			n++
		}
	}
	return n, nil
}

// counted reads the results of the reducers of a run.
func (c *counter) counted(run string) (map[string]int, error) {
	sum := make(map[string]int)
	for i := range c.reducers {
		part, err := os.Open(filepath.Join(c.work, "out", fmt.Sprintf("%s-part-%d", run, i)))
		if err != nil {
			return nil, err
		}
		err = readCounts(part, sum)
		if err := errors.Join(err, part.Close()); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// independent counts with the tools of the system.
func (c *counter) independent(ctx context.Context) (map[string]int, error) {
	const script = `tr 'A-Z' 'a-z' | tr -cs 'a-z' '\n' | grep . | sort | uniq -c | awk '{print $2, $1}'`
	text, err := os.Open(c.text)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin, cmd.Stderr = text, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("count with coreutils: %w", err)
	}
	counts := make(map[string]int)
	return counts, readCounts(strings.NewReader(string(out)), counts)
}

// difference names a word with different counts.
func difference(got, want map[string]int) string {
	for word, n := range want {
		if got[word] != n {
			return fmt.Sprintf("%q %d times, and not %d", word, got[word], n)
		}
	}
	return "there are words that are not in the text"
}

// most returns the most frequent word.
func most(counts map[string]int) string {
	var best string
	for word, n := range counts {
		if n > counts[best] || n == counts[best] && word < best {
			best = word
		}
	}
	return best
}
