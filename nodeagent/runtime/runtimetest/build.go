package runtimetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/escher-sched/escher/types"
)

// Image is the image of the suite's containers, and Program the path of the test program in it. The
// verbs of the program are in program/main.go.
const (
	Image   = "escher.local/runtimetest:latest"
	Program = "/bin/program"
)

// LogVerb is the program's verb to run as the logger of a container.
const LogVerb = "task-log"

const programPackage = "github.com/escher-sched/escher/nodeagent/runtime/runtimetest/program"

// BuildProgram compiles the test program into dir as a static binary, and returns its path.
func BuildProgram(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "program")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, programPackage)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", types.Errorf(types.Internal, "build the test program: %w: %s", err, out)
	}
	return path, nil
}
