package oversubscribe

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/escher-sched/escher/types"
)

// WorkCommand is the command of escher-bench that works in a container: WorkCommand DIRECTORY BLOCKS
// EVERY. It computes batches of so many blocks, one every so often, and writes what it has done to
// DIRECTORY/<its task>.json again and again. EVERY 0 means one after the other; so it is for an owner
// while there is a file DIRECTORY/more.
const WorkCommand = "bench-work"

const (
	// blockSize is the size of a block, which is hashed: it fits the cache of a core.
	blockSize = 256 << 10
	// moreFile makes owners work all the time.
	moreFile = "more"
)

// done is what a task has done so far.
type done struct {
	// Batches is how many batches it has computed, in Spent altogether.
	Batches int
	Spent   time.Duration
}

// less returns what was done since before.
func (d done) less(before done) done { return done{d.Batches - before.Batches, d.Spent - before.Spent} }

// each returns how long a batch took.
func (d done) each() float64 { return d.Spent.Seconds() / float64(max(1, d.Batches)) }

// Work works until ctx is done.
func Work(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return types.Errorf(types.Invalid, "%s: has %d arguments, want a directory, a number and a duration", WorkCommand, len(args))
	}
	blocks, err := strconv.Atoi(args[1])
	if err != nil {
		return types.Errorf(types.Invalid, "%s: blocks: %w", WorkCommand, err)
	}
	every, err := time.ParseDuration(args[2])
	if err != nil {
		return types.Errorf(types.Invalid, "%s: every: %w", WorkCommand, err)
	}
	file := filepath.Join(args[0], os.Getenv("ESCHER_TASK")+".json")
	var all done
	for ctx.Err() == nil {
		begin := time.Now()
		batch(blocks)
		all.Batches++
		all.Spent += time.Since(begin)
		if err := write(file, all); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(args[0], moreFile)); err == nil {
			continue
		}
		select {
		case <-time.After(time.Until(begin.Add(every))):
		case <-ctx.Done():
		}
	}
	return nil
}

// batch computes.
func batch(blocks int) {
	var block [blockSize]byte
	for range blocks {
		sum := sha256.Sum256(block[:])
		copy(block[:], sum[:])
	}
}

// write replaces a file.
func write(file string, all done) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// read returns what tasks have done; those that have not begun have done nothing.
func read(dir string, tasks []string) (done, error) {
	var sum done
	for _, id := range tasks {
		text, err := os.ReadFile(filepath.Join(dir, id+".json"))
		if os.IsNotExist(err) {
			continue
		}
		var one done
		if err == nil {
			err = json.Unmarshal(text, &one)
		}
		if err != nil {
			return sum, types.Errorf(types.Internal, "read what task %s has done: %w", id, err)
		}
		sum.Batches, sum.Spent = sum.Batches+one.Batches, sum.Spent+one.Spent
	}
	return sum, nil
}

// blocksFor returns how many blocks take about so long on an idle core.
func blocksFor(d time.Duration) int {
	fastest := time.Hour
	for range 50 {
		begin := time.Now()
		batch(1)
		fastest = min(fastest, time.Since(begin))
	}
	return max(1, int(d/fastest))
}
