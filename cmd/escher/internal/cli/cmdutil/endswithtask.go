package cmdutil

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/types"
)

// Exit codes of commands that end with the code of a task, as those of docker run.
const (
	// ExitFailed is the code if the command itself fails.
	ExitFailed = 125
	// ExitCannotRun and ExitNotFound are the codes if the container cannot execute the task's command,
	// or does not have it.
	ExitCannotRun = 126
	ExitNotFound  = 127
)

// endsWithTask is the annotation of commands that end with the code of a task.
const endsWithTask = "ends-with-task"

// EndsWithTask marks a command that ends with the code of a task, with flag "" always, otherwise if
// the boolean flag is set. Its own failures then have the exit code ExitFailed.
func EndsWithTask(cmd *cobra.Command, flag string) *cobra.Command {
	cmd.Annotations = map[string]string{endsWithTask: flag}
	return cmd
}

// doesEndWithTask reports whether a command ends with the code of a task, as it was called.
func doesEndWithTask(cmd *cobra.Command) bool {
	flag, marked := cmd.Annotations[endsWithTask]
	if flag == "" {
		return marked
	}
	set, err := cmd.Flags().GetBool(flag)
	return err == nil && set
}

// Failure is the error of a command, as -o json prints it on the error output.
type Failure struct {
	// Class is the name of the error's class: see types.Class.
	Class string `json:"class"`
	Error string `json:"error"`
	// Hint says what to do about errors that do not say it themselves.
	Hint     string `json:"hint,omitempty"`
	ExitCode int    `json:"exitCode"`
}

// NewFailure describes an error of a command. text is its text for the user.
func NewFailure(cmd *cobra.Command, err error, text, hint string) Failure {
	class := types.ClassOf(err)
	failure := Failure{Class: class.String(), Error: text, Hint: hint, ExitCode: class.ExitCode()}
	if doesEndWithTask(cmd) {
		failure.ExitCode = ExitFailed
	}
	return failure
}

// Print prints the failure, for a person or as JSON. It names the class where the exit code does not.
func (e Failure) Print(w io.Writer, asJSON bool) {
	if asJSON {
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		_ = out.Encode(e) // the exit code remains if the error output takes nothing
		return
	}
	fmt.Fprintf(w, "escher: %s\n", e.Error)
	if e.ExitCode == ExitFailed {
		fmt.Fprintf(w, "escher: exit code %d: escher failed, not the task: %s\n", ExitFailed, e.Class)
	}
	if e.Hint != "" {
		fmt.Fprintf(w, "escher: %s\n", e.Hint)
	}
}
