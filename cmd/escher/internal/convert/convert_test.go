package convert_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/cmd/escher/internal/convert"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// input is a file to convert, without any environment.
func input(name, text string, files map[string]string) convert.Input {
	return convert.Input{
		Name: name, Text: []byte(text), Known: library.KnownPolicies(),
		Env: func(string) (string, bool) { return "", false },
		Read: func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		},
	}
}

// conversions are archives of a file, those next to it, its result and its notes.
func conversions() []string {
	return []string{
		ofLong, ofPlain, ofServices, ofUnsupported, ofVariables,
		ofArray, ofDdp, ofMpi, ofPython, ofPyxis, ofRscript, ofSteps, ofTorchrun, ofWrong,
	}
}

// parts returns the name of the first file of an archive, and all files.
func parts(archive string) (first string, files map[string]string) {
	a := txtar.Parse([]byte(archive))
	files = make(map[string]string)
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	return a.Files[0].Name, files
}

// noted are notes, a line each, as they are printed.
func noted(notes []convert.Note) string {
	var all strings.Builder
	for _, n := range notes {
		fmt.Fprintf(&all, "%d: %s\n", n.Line, n)
	}
	return all.String()
}

// TestConversions compares results and notes. Each result is a good file.
func TestConversions(t *testing.T) {
	for _, archive := range conversions() {
		name, files := parts(archive)
		text, notes, err := convert.File(input(name, files[name], files))
		if err != nil {
			t.Errorf("%s\n%v", archive, err)
			continue
		}
		if diff := cmp.Diff(files["result"], string(text)); diff != "" {
			t.Errorf("%s\nthe result differs: %s", files[name], diff)
		}
		if diff := cmp.Diff(files["notes"], noted(notes)); diff != "" {
			t.Errorf("%s\nthe notes differ: %s", files[name], diff)
		}
		if docs, err := manifest.Parse(name, text, library.KnownPolicies()); err != nil || len(docs) == 0 {
			t.Errorf("%s\n%v, %v", text, docs, err)
		}
	}
}

// TestUnconvertible: the error says what is wrong.
func TestUnconvertible(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for text, says := range map[string]string{
		"":                                "f: is no compose file: it has no services",
		"just words":                      "f: has neither services nor #SBATCH lines",
		"services: {}":                    "f: has neither services nor #SBATCH lines",
		"services: [a":                    "f: line 1: ",
		"#!/bin/sh\n#SBATCH -N 2\n":       "f: has no command: write one below the #SBATCH lines",
		"#!/bin/sh\n\x00":                 "f: contains a 0 byte",
		"services: {a: {image: \"a b\"}}": "f: a value cannot be converted: correct it there: the result:",
		"services: {a: {image: \"${TAG:?name a tag}\"}}":                          "f: line 1: the variable TAG is not set: set it: name a tag",
		"services: {a: {image: \"${TAG:?}\"}}":                                    "f: line 1: the variable TAG is not set: set it",
		"services: {a: {image: b, ulimits: {nofile: {soft: 10}}}}":                "f: a value cannot be converted: correct it there: the result:",
		"services: {a: {image: \"${A!x}\"}}":                                      "f: line 1: ${A!x} is no variable",
		"services: {a: {image: \"${A\"}}":                                         "f: line 1: \"${A\": the brace is not closed",
		bomb + "services: {a: {image: a}}":                                        "f: is no compose file: it has no services, holds more than 100000 values",
		"services: {a: {image: b, environment: " + strings.Repeat("[", 60) + "\n": "f: ",
		strings.Repeat("#", convert.MaxFile+1):                                    "f: has more than 1048576 bytes: split it",
		"#!/usr/bin/perl\n#SBATCH -N 1 -D /x\nprint 1\n":                          "f: is a script for perl: give it as a file",
	} {
		out, _, err := convert.File(input("f", text, nil))
		if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) || strings.HasSuffix(err.Error(), ": ") {
			t.Errorf("%.80q:\ngot  %v\nwant %s\n%s", text, err, says, out)
		}
	}
	in := input("f", "services: {}", nil)
	in.Format = "nomad"
	if _, _, err := convert.File(in); err == nil || !strings.Contains(err.Error(), `"nomad" is not a format: use compose or sbatch`) {
		t.Error(err)
	}
}

// TestTimes: the forms of times of Slurm.
func TestTimes(t *testing.T) {
	for given, want := range map[string]string{
		"90": "1h30m", "10:30": "10m30s", "1:02:03": "1h2m3s", "1-12": "36h", "1-12:30": "36h30m", "2-00:00:01": "48h0m1s", "24:00:00": "24h", "0": "", "UNLIMITED": "",
	} {
		text, _, err := convert.File(input("f", "#!/bin/sh\n#SBATCH -t "+given+"\n./a\n", nil))
		_, rest, found := strings.Cut(string(text), "maxRun: ")
		got, _, _ := strings.Cut(rest, "\n")
		if err != nil || found != (want != "") || got != want {
			t.Errorf("%s: %q, %v, want %q", given, got, err, want)
		}
	}
}

// TestMemory: the amounts of memory of Slurm.
func TestMemory(t *testing.T) {
	for given, want := range map[string]string{
		"64G": "64Gi", "64000": "64000Mi", "228GB": "228Gi", "100g": "100Gi", "48Gb": "48Gi", "512K": "512Ki", "2T": "2Ti", "1024M": "1Gi", "1.5G": "", "99999999999T": "",
	} {
		text, notes, err := convert.File(input("f", "#!/bin/sh\n#SBATCH --mem="+given+"\n./a\n", nil))
		_, rest, found := strings.Cut(string(text), "memory: ")
		got, _, _ := strings.Cut(rest, "}")
		if err != nil || found != (want != "") || got != want || (want == "") != strings.Contains(fmt.Sprint(notes), "--mem=") {
			t.Errorf("%s: %q, %v, want %q; %v", given, got, err, want, notes)
		}
	}
}

// FuzzFile: whatever is converted can be read.
func FuzzFile(f *testing.F) {
	for _, archive := range conversions() {
		name, files := parts(archive)
		f.Add(files[name])
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, _, err := convert.File(input("f", text, nil))
		if err != nil {
			return
		}
		if _, err := manifest.Parse("f", out, library.KnownPolicies()); err != nil {
			t.Errorf("%s\n%v", out, err)
		}
	})
}
