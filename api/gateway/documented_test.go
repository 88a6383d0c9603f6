package gateway

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types/rights"
)

var update = flag.Bool("update", false, "write the table of docs/gateway.md")

// TestDocumented: the table in docs/gateway.md is that of the rules and of package writers.
func TestDocumented(t *testing.T) {
	const path = "../../docs/gateway.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, rest, _ := strings.Cut(string(page), "-update -->\n")
	_, end, found := strings.Cut(rest, "<!-- end -->")
	if !found {
		t.Fatal("the page has no table")
	}
	want := begin + "-update -->\n" + table() + "<!-- end -->" + end
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatal("docs/gateway.md is not as the rules are: go test ./api/gateway -run TestDocumented -update")
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// table returns the rules as a table; kinds with the same rules share a row.
func table() string {
	var order []string
	kinds := make(map[string][]string)
	for _, a := range writers.Table() {
		need, readable := access.Readable()[a.Kind]
		if !readable && a.Kind != controlplane.Tokens {
			continue
		}
		read := "nobody"
		if readable {
			read = "`" + need.String() + "`"
		}
		cells := fmt.Sprintf("| %s | %s | %s |", read, by(a.Put, a.Kind), by(a.Delete, a.Kind))
		if kinds[cells] == nil {
			order = append(order, cells)
		}
		kinds[cells] = append(kinds[cells], "`"+string(a.Kind)+"/`")
	}
	var b strings.Builder
	b.WriteString("| keys | to read | to put | to delete |\n|---|---|---|---|\n")
	for _, cells := range order {
		b.WriteString("| " + strings.Join(kinds[cells], " ") + " " + cells + "\n")
	}
	return b.String()
}

// by says what it takes to be one of some writers.
func by(all []writers.Writer, kind controlplane.Kind) string {
	need, known := writable()[kind]
	var ways []string
	for _, w := range all {
		way := ""
		switch {
		case w == writers.Agent:
			way = "agent"
		case w == writers.Scheduler:
			way = "`" + rights.Need{Verb: rights.Write, Kind: rights.Bindings}.String() + "`"
		case w == writers.Application && known:
			way = "`" + need.String() + "`"
		case w == writers.Administrator && known:
			way = "`" + need.String() + "`, in the cluster"
		}
		if way != "" && !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	if len(ways) == 0 {
		return "servers"
	}
	return strings.Join(ways, "; ")
}
