package wordcount

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/types"
)

// TestReadPair accepts times, and nothing else.
func TestReadPair(t *testing.T) {
	if near, named, err := readPair([]byte(`{"named_s":2.5,"near_s":2.25}`)); err != nil || near != 2.25 || named != 2.5 {
		t.Errorf("got %g and %g, %v", near, named, err)
	}
	for _, line := range []string{`{"named_s":2.5}`, `12.0 MB of text`} {
		if _, _, err := readPair([]byte(line)); err == nil || !strings.Contains(err.Error(), "no pair of times") {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

// TestDrawText: lines of words of letters, the same every time, some of them frequent.
func TestDrawText(t *testing.T) {
	text := drawText(10_000)
	if len(text) < 10_000 || len(text) > 10_100 || text[len(text)-1] != '\n' || !bytes.Equal(text, drawText(10_000)) {
		t.Errorf("%d bytes, which end with %q", len(text), text[len(text)-1:])
	}
	count := make(map[string]int)
	for word := range bytes.FieldsSeq(text) {
		if len(bytes.Trim(word, "abcdefghijklmnopqrstuvwxyz")) > 0 {
			t.Fatalf("%q is no word", word)
		}
		count[string(word)]++
	}
	if len(count) < 100 || count["b"] < 100 {
		t.Errorf("%d different words, the first one %d times", len(count), count["b"])
	}
}

// TestWordcountIsBuilt: the error says how to build a missing program.
func TestWordcountIsBuilt(t *testing.T) {
	_, err := runContainers(context.Background(), rig.Config{Escher: filepath.Join(t.TempDir(), "escher")})
	if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "go build -o") {
		t.Errorf("got %v", err)
	}
}
