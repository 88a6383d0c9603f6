package nodeapi

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// TestInputOfTwoClients lets a process have more than this client sent, or less than it confirmed:
// another client has passed some.
func TestInputOfTwoClients(t *testing.T) {
	in := NewInput(strings.NewReader("0123456789"))
	if err := in.taken(100); err != nil {
		t.Fatalf("its client is not the first: %v", err)
	}
	in.read()
	into := make([]byte, 4)
	if n, ended := in.next(t.Context(), 100, into); n != 4 || ended || string(into) != "0123" {
		t.Errorf("%d, %v, %q", n, ended, into)
	}
	if err := in.taken(104); err != nil {
		t.Fatal(err)
	}
	for _, other := range []int64{103, 111} {
		if err := in.taken(other); !types.Is(err, types.Conflict) || !strings.Contains(err.Error(), "104 to 110") {
			t.Errorf("%d bytes were taken: %v", other, err)
		}
	}
	if err := in.taken(110); err != nil {
		t.Fatal(err)
	}
	if n, ended := in.next(t.Context(), 110, into); n != 0 || !ended {
		t.Errorf("%d bytes after the last", n)
	}
}
