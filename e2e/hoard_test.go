package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestHoard makes a task set 100,000 resources of its namespace. A budget ends that, without effect
// on a neighbor. ESCHER_E2E_HOARD=all leaves the namespace the built-in budget, which allows all of
// them.
func TestHoard(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t, "--nodes", "2")
	all := os.Getenv("ESCHER_E2E_HOARD") != ""
	if !all {
		c.must("namespace", "create", "hostile", "--max-keys", "5000")
	}
	began := time.Now()
	hostile := c.must("-n", "hostile", "run", "-d", "--name", "hoard", image, "--", "/bin/program", "hoard", "100000")
	slowest := time.Duration(0)
	ended := func() bool {
		return strings.Contains(c.must("-n", "hostile", "ps", "-a"), "succeeded")
	}
	for !ended() {
		at := time.Now()
		if out := c.must("run", image, "--", "/bin/program", "echo", "here"); out != "here" {
			t.Fatalf("its neighbor says %q", out)
		}
		slowest = max(slowest, time.Since(at))
	}
	said := c.must("-n", "hostile", "logs", hostile)
	t.Logf("%.200s: within %s; the slowest run of its neighbor took %s", said, time.Since(began).Round(time.Millisecond), slowest)
	var n int
	if _, err := fmt.Sscanf(said, "hoarded %d", &n); err != nil {
		t.Fatal(err)
	}
	if all != (n == 100_000) || !all && !strings.Contains(said, "over its budget") {
		t.Errorf("it has %d: %s", n, said)
	}
	if out := c.must("run", image, "--", "/bin/program", "echo", "still"); out != "still" {
		t.Errorf("its neighbor says %q", out)
	}
}
