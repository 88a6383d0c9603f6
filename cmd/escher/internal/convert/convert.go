// Package convert turns files of other systems into files of Escher: services of docker compose, and
// batch scripts of Slurm. What Escher lacks is dropped, and a note says so.
package convert

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// Format is the format of a file.
type Format string

// The formats.
const (
	Compose Format = "compose"
	Sbatch  Format = "sbatch"
)

// Input is a file to convert.
type Input struct {
	// Name is the name of the file, or Stdin.
	Name string
	Text []byte
	// Format is its format; empty means the one that it looks like.
	Format Format
	// Image is the image of a script that names none.
	Image string
	// Env returns a variable of the environment, of which compose files make use.
	Env func(name string) (value string, set bool)
	// Read reads a file next to this one, such as .env.
	Read func(name string) ([]byte, error)
	// Known are the known policies.
	Known manifest.Policies
}

// Note is about something in the file that the result lacks, or has in another way.
type Note struct {
	// Line is its line, 0 for the whole file.
	Line int
	// What names it, and Remedy says what to do about it.
	What, Remedy string
}

func (n Note) String() string { return n.What + ": " + n.Remedy }

// Stdin is the name of the standard input.
const Stdin = "input"

// MaxFile bounds a file in bytes.
const MaxFile = 1 << 20

// File converts a file, and returns the text of a file of Escher. Invalid: the error says why it
// cannot be converted.
func File(in Input) (text []byte, notes []Note, err error) {
	if len(in.Text) > MaxFile {
		return nil, nil, types.Errorf(types.Invalid, "%s: has more than %d bytes: split it", in.Name, MaxFile)
	}
	format := cmp.Or(in.Format, looksLike(in.Text))
	var docs []*object
	switch format {
	case Compose:
		docs, notes, err = fromCompose(&in)
	case Sbatch:
		docs, notes, err = fromSbatch(&in)
	default:
		return nil, nil, types.Errorf(types.Invalid, "%s: %q is not a format: use %s or %s", in.Name, format, Compose, Sbatch)
	}
	if err != nil {
		return nil, nil, types.Errorf(types.Invalid, "%s: %w", in.Name, err)
	}
	text, err = render(docs)
	if err != nil {
		return nil, nil, err
	}
	if _, err := manifest.Parse("the result", text, in.Known); err != nil {
		return nil, nil, types.Errorf(types.Invalid, "%s: a value cannot be converted: correct it there: %w", in.Name, err)
	}
	slices.SortStableFunc(notes, func(a, b Note) int { return a.Line - b.Line })
	return text, notes, nil
}

// looksLike guesses the format of a file: a script begins with #!, or has #SBATCH lines.
func looksLike(text []byte) Format {
	if bytes.HasPrefix(text, []byte("#!")) || bytes.HasPrefix(text, []byte("#SBATCH")) || bytes.Contains(text, []byte("\n#SBATCH")) {
		return Sbatch
	}
	return Compose
}

// Looks says what a file is that File converts, such as a batch script of Slurm; empty if it does not
// look like one.
func Looks(text []byte) string {
	switch {
	case looksLike(text) == Sbatch:
		return "batch script of Slurm"
	case bytes.HasPrefix(text, []byte("services:")) || bytes.Contains(text, []byte("\nservices:")):
		return "compose file"
	}
	return ""
}

// notes collects notes.
type notes []Note

func (n *notes) add(line int, what, remedy string, args ...any) {
	*n = append(*n, Note{line, what, fmt.Sprintf(remedy, args...)})
}

// dropped notes a key that has no counterpart.
func (n *notes) dropped(line int, key, remedy string, args ...any) {
	n.add(line, key+" is dropped", remedy, args...)
}

// nameOf makes a name of a text, and notes a change.
func (n *notes) nameOf(line int, text string) string {
	name := regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(text, "-")
	name = strings.Trim(name[:min(len(name), types.MaxName)], "-._")
	if name = cmp.Or(name, "job"); name != text {
		n.add(line, "the name "+text, "it is %s here, names have letters, digits, - . and _, and at most %d of them", name, types.MaxName)
	}
	return name
}

// base returns the name of the file without its directory and extension.
func (in *Input) base() string {
	if in.Name == Stdin {
		return "job"
	}
	name := filepath.Base(in.Name)
	return strings.TrimSuffix(name, filepath.Ext(name))
}
