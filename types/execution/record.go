// Package execution is the format of a node's log of executions. The log proves that two attempts
// of a task never ran at the same time. Package nodeagent/fence/execlog writes it, and package
// audit reads it.
package execution

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/escher-sched/escher/types"
)

// Event is the kind of a record.
type Event string

// The events.
const (
	// Start: a process may run from now on. The agent writes it before it requests the start.
	Start Event = "start"
	// End: no process of the attempt is left.
	End Event = "end"
	// Kill: the watchdog killed the processes of the attempt, and none is left.
	Kill Event = "kill"
)

// Record is one line of the log of a node.
type Record struct {
	Event Event `json:"event"`
	// Container is the unique container of the attempt. Restart is the number of earlier runs of
	// the attempt.
	Container string `json:"container"`
	Restart   int    `json:"restart,omitempty"`

	Node      string `json:"node"`
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
	// Revision is the CreateRevision of the binding.
	Revision int64 `json:"revision"`

	// At is the time of the record by the wall clock, in Unix nanoseconds. Boot is that time by the
	// boot clock, of the boot that BootID names. The end itself was not later.
	At     int64         `json:"at"`
	Boot   time.Duration `json:"boot"`
	BootID string        `json:"bootID"`

	// Ran reports, in an end, whether a process is known to have run. Code is its exit code if
	// known: 128 + n for signal n.
	Ran  bool `json:"ran,omitempty"`
	Code *int `json:"code,omitempty"`
	// Reason says why the node ended it.
	Reason string `json:"reason,omitempty"`
}

// Key identifies one process, or further tries to start it.
type Key struct {
	Container string
	Restart   int
}

// Key returns the process of the record.
func (r *Record) Key() Key { return Key{r.Container, r.Restart} }

// Stamp sets the time of the record.
func (r *Record) Stamp(wall time.Time, boot time.Duration, bootID string) {
	r.At, r.Boot, r.BootID = wall.UnixNano(), boot, bootID
}

const (
	// Name is the file in the state directory of an agent.
	Name = "executions.log"
	// maxLine is longer than any record, because reasons are cut.
	maxLine = 64 << 10
	// sumDigits is the number of digits of the checksum at the start of a line.
	sumDigits = 8
)

// Previous returns the path of the log before the current one.
func Previous(path string) string { return path + ".1" }

// AppendLine appends the line of a record to b: the CRC-32C of its JSON in hexadecimal,
// a space, the JSON. A reason is cut to types.MaxReason bytes.
func AppendLine(b []byte, r *Record) []byte {
	short := *r
	short.Reason = types.CutReason(short.Reason)
	text, err := json.Marshal(&short)
	if err != nil {
		panic(err) // Texts and numbers can always be encoded.
	}
	sum := strconv.FormatUint(uint64(checksum(text)), 16)
	for range sumDigits - len(sum) {
		b = append(b, '0')
	}
	b = append(b, sum...)
	b = append(b, ' ')
	b = append(b, text...)
	return append(b, '\n')
}

func checksum(text []byte) uint32 { return crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)) }

// Scan calls f for every record, in order. It returns the number of invalid lines: lines torn by a
// crash, or changed by hand.
func Scan(r io.Reader, f func(Record)) (bad int, err error) {
	lines := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return bad, types.Errorf(types.Unavailable, "read log of executions: %w", err)
		}
		// Empty lines are legal: the writer starts a new line after a torn one.
		line = bytes.TrimSuffix(line, []byte("\n"))
		if r, ok := parse(line); ok && !long {
			f(r)
		} else if long || len(line) > 0 {
			bad++
		}
		if err != nil {
			return bad, nil
		}
	}
}

func parse(line []byte) (r Record, ok bool) {
	sum, text, found := bytes.Cut(line, []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !found || err != nil || uint32(want) != checksum(text) {
		return r, false
	}
	return r, json.Unmarshal(text, &r) == nil
}

// ReadFile scans the log at path, after the previous log, if it exists. NotFound: neither exists.
func ReadFile(path string, f func(Record)) (bad int, err error) {
	found := false
	for _, name := range []string{Previous(path), path} {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return bad, types.Errorf(types.Unavailable, "read log of executions: %w", err)
		}
		found = true
		n, err := Scan(file, f)
		_ = file.Close() // The file was only read.
		if bad += n; err != nil {
			return bad, err
		}
	}
	if !found {
		return 0, types.Errorf(types.NotFound, "read log of executions: there is no %s", path)
	}
	return bad, nil
}

// Running holds the starts without an end.
type Running map[Key]Record

// Note applies the next record.
func (o Running) Note(r Record) {
	switch _, known := o[r.Key()]; {
	case r.Event != Start:
		delete(o, r.Key())
	case !known: // A repeated start began with the first try.
		o[r.Key()] = r
	}
}
