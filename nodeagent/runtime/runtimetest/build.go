package runtimetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/escher-sched/escher/types"
)

// Image is the name of the image that the containers of the suite run, and
// Program where the test program is in it; its verbs are in program/main.go.
const (
	Image   = "escher.local/runtimetest:latest"
	Program = "/bin/program"
)

// LogVerb is the verb with which the program is the logger of a container.
const LogVerb = "task-log"

const programPackage = "github.com/escher-sched/escher/nodeagent/runtime/runtimetest/program"

// BuildProgram compiles the test program into dir, as a static binary, and
// returns its path.
func BuildProgram(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "program")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, programPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", types.Errorf(types.Internal, "build the test program: %w: %s", err, out)
	}
	return path, nil
}
