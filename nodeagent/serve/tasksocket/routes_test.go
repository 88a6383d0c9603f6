package tasksocket

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDocumented finds every request in the documentation, and no other.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/task-api.md")
	if err != nil {
		t.Fatal(err)
	}
	var served, written []string
	for _, r := range new(Server).routes() {
		served = append(served, r.pattern)
	}
	for _, part := range strings.Split(string(text), "### `")[1:] {
		request, _, _ := strings.Cut(part, "`")
		written = append(written, request)
	}
	slices.Sort(served)
	slices.Sort(written)
	if !slices.Equal(served, written) {
		t.Errorf("served: %v\ndocumented: %v", served, written)
	}
}
