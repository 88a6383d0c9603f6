package bubbletest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// A measurement in virtual time needs a process of its own, because a bubble ends its process. Ask starts
// it, and Serve is what it does.

// Ask has another process of the bench do an errand, and reads its result into the pointer into. command
// is the one that Serve serves, and name what errors call the errand. The process ends with ctx, or with
// this process.
func Ask(ctx context.Context, cfg rig.Config, command, name string, errand, into any) error {
	return rig.WithDirectory(cfg, func(dir string) error {
		ask, err := json.Marshal(errand)
		if err != nil {
			return types.Errorf(types.Internal, "write what to run: %w", err)
		}
		file := filepath.Join(dir, "result.json")
		cmd := exec.CommandContext(ctx, cfg.Self, command, file)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		asking, err := cmd.StdinPipe() // it is open for as long as this process lives
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			_, writing := asking.Write(ask)
			err = errors.Join(cmd.Wait(), writing)
		}
		if err != nil {
			return types.Errorf(types.Internal, "run %s: %w: %s", name, err, said.String())
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return types.Errorf(types.Internal, "read the result of %s: %w", name, err)
		}
		return nil
	})
}

// Serve does the errand that in describes in virtual time, writes its result to a file, and ends the
// process. The process ends earlier when ctx is done, or in ends. Invalid: in holds no errand.
func Serve[E, R any](ctx context.Context, in io.Reader, file string, do func(context.Context, E) (R, error)) error {
	var errand E
	if err := json.NewDecoder(in).Decode(&errand); err != nil {
		return types.Errorf(types.Invalid, "read what to run: %w", err)
	}
	context.AfterFunc(ctx, func() { os.Exit(types.ExitInterrupted) })
	go func() {
		_, _ = io.Copy(io.Discard, in) // its end is that of the parent
		os.Exit(types.ExitInterrupted)
	}()
	Exit(func(ctx context.Context) error {
		result, err := do(ctx, errand)
		if err != nil {
			return err
		}
		text, err := json.Marshal(result)
		if err != nil {
			return types.Errorf(types.Internal, "write the result: %w", err)
		}
		return os.WriteFile(file, text, 0o600)
	})
	return nil
}
