package manifest

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// interpreters take a script as the argument of -c.
func interpreters() []string {
	return []string{"sh", "ash", "bash", "dash", "ksh", "zsh", "python", "python3"}
}

// Interprets reports whether run takes scripts for a program, given by the words of its first line
// without env.
func Interprets(program []string) bool {
	return len(program) > 0 && slices.Contains(interpreters(), path.Base(program[0]))
}

// isCommand reports whether a script is certainly one program with its arguments, which can replace
// the shell.
func isCommand(script string) bool {
	if strings.ContainsAny(strings.ReplaceAll(script, "\\\n", " "), "\n;&|()`") {
		return false
	}
	word, _, _ := strings.Cut(strings.TrimSpace(script), " ")
	return plainWord().MatchString(word) && !slices.Contains(shellWords(), word)
}

func plainWord() *regexp.Regexp { return regexp.MustCompile("^[A-Za-z0-9_./-]+$") }

// shellWords are words that mean something to a shell itself, or may do so.
func shellWords() []string {
	return strings.Fields(". : alias bg break case cd command continue do done echo elif else esac eval exec exit export " +
		"false fg fi for getopts hash if jobs kill local printf pwd read readonly return set shift source test then time times " +
		"trap true type ulimit umask unalias unset until wait while")
}

// scriptCommand returns the command that runs a script: the interpreter of its first line, if that
// begins with #!, else sh, which ends at the first command that fails. A script of one command
// replaces its shell, and thus gets the signals: not every sh does that by itself. Invalid: the error
// says why the interpreter cannot run it.
func scriptCommand(script string) ([]string, error) {
	script = strings.TrimRight(script, "\n")
	first, _, _ := strings.Cut(script, "\n")
	line, given := strings.CutPrefix(first, "#!")
	if !given && isCommand(script) {
		script = "exec " + strings.TrimLeft(script, " ")
	}
	if !given {
		return []string{"sh", "-e", "-c", script}, nil
	}
	words := strings.Fields(line)
	program := words
	if len(words) > 1 && path.Base(words[0]) == "env" {
		program = words[1:]
	}
	if !Interprets(program) {
		return nil, types.Errorf(types.Invalid, "%q is not a shell or python: leave the first line out for sh, or give a command", first)
	}
	return append(slices.Clone(words), "-c", script), nil
}

// program returns the entry point and the command of the spec. A script is an entry point, so that
// it runs by itself in any image. Invalid: the error begins with the field.
func (s *Spec) program() (entrypoint, command []string, err error) {
	switch {
	case s.Run == "":
		return s.Entrypoint, s.Command, nil
	case len(s.Command) > 0:
		return nil, nil, types.Errorf(types.Invalid, "run: command is given, too: give one of them")
	case len(s.Entrypoint) > 0:
		return nil, nil, types.Errorf(types.Invalid, "run: entrypoint is given, too: give one of them")
	}
	if entrypoint, err = scriptCommand(s.Run); err != nil {
		return nil, nil, types.Errorf(types.Invalid, "run: %w", err)
	}
	return entrypoint, nil, nil
}

// deafScript reports whether a warning reaches only the shell of the script, which ignores it.
func (s *Spec) deafScript() bool {
	return s.Warn != nil && s.Run != "" && !isCommand(strings.TrimRight(s.Run, "\n")) &&
		!strings.Contains(s.Run, "exec ") && !strings.Contains(s.Run, "trap ") && !strings.HasPrefix(s.Run, "#!")
}
