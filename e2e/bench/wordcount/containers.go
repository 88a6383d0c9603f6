package wordcount

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

const (
	// textSize is the size of the text that containers count, in bytes.
	textSize = 12 << 20
	// containerReducers is the number of reducers.
	containerReducers = 3
	// examplesImage is the image of the examples.
	examplesImage = "escher.local/examples:latest"
)

// runContainers runs the example on a text in containers. In turns, its mappers request their data,
// and have a named node: the same nodes.
func runContainers(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	program := filepath.Join(filepath.Dir(cfg.Escher), "wordcount")
	if _, err := os.Stat(program); err != nil {
		return nil, types.Errorf(types.Precondition, "wordcount-containers: %w: it is built by CGO_ENABLED=0 go build -o %s ./examples/wordcount", err, filepath.Dir(cfg.Escher))
	}
	var near, named []float64
	err := rig.WithDirectory(cfg, func(dir string) error {
		text, work := filepath.Join(dir, "text", "text.txt"), filepath.Join(dir, "work")
		if err := errors.Join(os.MkdirAll(work, 0o755), os.MkdirAll(filepath.Dir(text), 0o755)); err != nil {
			return err
		}
		if err := os.WriteFile(text, drawText(textSize), 0o644); err != nil {
			return err
		}
		cfg.Mounts = []string{filepath.Dir(text) + ":ro", work}
		return rig.WithLive(ctx, cfg, func(ctx context.Context, l *rig.Live) (err error) {
			if err := l.MakeImage(ctx, examplesImage, map[string]string{"/bin/wordcount": program}); err != nil {
				return err
			}
			near, named, err = countPairs(ctx, l, cfg, program, text, work)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	row := rig.NewRow(cfg, cfg.Scenario, "s", near).Over(placedNative, near, named).AddDetail("lines", []float64{policyLines})
	return []rig.Row{*row.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 1.05})}, nil
}

// countPairs runs the example, and returns the durations in seconds.
func countPairs(ctx context.Context, l *rig.Live, cfg rig.Config, program, text, work string) (near, named []float64, err error) {
	cmd := exec.CommandContext(ctx, program, "-text", text, "-work", work,
		"-chunks", strconv.Itoa(cfg.Tasks), "-reducers", strconv.Itoa(containerReducers), "-pairs", strconv.Itoa(cfg.Rounds))
	cmd.Env = append(os.Environ(), "ESCHER_ENDPOINTS="+l.Endpoint)
	var said rig.Tail
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, types.Errorf(types.Precondition, "run %s: %w", program, err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, m, err := readPair(lines.Bytes())
		if err != nil {
			return nil, nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		near, named = append(near, n), append(named, m)
		cfg.Say("pair %d of %d: near its data %.2f s, on nodes that are named %.2f s (%.2f)", len(near), cfg.Rounds, n, m, n/m)
	}
	if err := cmd.Wait(); err != nil {
		return nil, nil, types.Errorf(types.Internal, "%s: %w: %s", program, err, &said)
	}
	if len(near) != cfg.Rounds {
		return nil, nil, types.Errorf(types.Internal, "%s: told %d pairs, want %d", program, len(near), cfg.Rounds)
	}
	return near, named, nil
}

// readPair reads the example's output for a pair.
func readPair(line []byte) (near, named float64, err error) {
	var pair struct {
		Near  float64 `json:"near_s"`
		Named float64 `json:"named_s"`
	}
	if err := json.Unmarshal(line, &pair); err != nil || pair.Near <= 0 || pair.Named <= 0 {
		return 0, 0, types.Errorf(types.Internal, "wordcount: %q is no pair of times: %w", line, cmp.Or(err, fmt.Errorf("both must be above 0")))
	}
	return pair.Near, pair.Named, nil
}

// drawText makes a text of about size bytes, with natural word frequencies: the i-th word has
// frequency 1/i. It is the same every time.
func drawText(size int) []byte {
	words := rand.NewZipf(rand.New(rand.NewPCG(rig.Seed, rig.Seed)), 1.1, 1, 50_000)
	var out bytes.Buffer
	for n := 0; out.Len() < size; n++ {
		for left := words.Uint64() + 1; left > 0; left /= 26 {
			out.WriteByte('a' + byte(left%26))
		}
		if n%12 == 11 {
			out.WriteByte('\n')
			continue
		}
		out.WriteByte(' ')
	}
	out.WriteByte('\n')
	return out.Bytes()
}
