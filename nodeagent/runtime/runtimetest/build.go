package runtimetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/escher-sched/escher/types"
)

// Image is the image of the suite's containers, and Program the path of the test program in it. The
// verbs of the program are in program/main.go.
const (
	Image   = "escher.local/runtimetest:latest"
	Program = "/bin/program"
	// EntryImage is the same image with Program as its entry point, "exit 6" as its arguments, and
	// Check as its health check.
	EntryImage = "escher.local/runtimetest-entry:latest"
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

// Check is the health check of EntryImage.
func Check() *types.Check {
	return &types.Check{
		Name: "image", Exec: []string{Program, "exit", "0"}, Every: 7 * time.Second, Timeout: 30 * time.Second, Failures: 3, Then: types.ThenReport,
	}
}
