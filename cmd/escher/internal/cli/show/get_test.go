package show

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// got returns what get prints of a value.
func got(t *testing.T, format table.Format, key string, value []byte) string {
	t.Helper()
	store := memstore.New()
	ops := []controlplane.Op{{Key: key, Value: value}}
	if _, err := store.Commit(t.Context(), controlplane.Txn{Ops: ops}); err != nil {
		t.Fatal(err)
	}
	var out, problems strings.Builder
	f := &cmdutil.Factory{Outside: cmdutil.Outside{Out: &out, Err: &problems}, Format: format, Opened: store}
	if err := (gets{limit: 1}).print(context.Background(), f, key); err != nil {
		t.Fatal(err)
	}
	if problems.Len() > 0 {
		t.Error(problems.String())
	}
	return out.String()
}

// TestGetValues shows readable and unreadable values, and no secret of either.
func TestGetValues(t *testing.T) {
	const ended = 1764417000312000000
	status := types.Encode(7, &types.Status{Phase: types.Succeeded, Node: "n1", Attempt: 1, Ended: ended})
	secret := types.Encode(7, &types.Token{Token: "open-sesame"})
	for _, test := range []struct {
		name, key string
		value     []byte
		want      string
	}{
		{"status", controlplane.StatusKey("d", "a"), status, `# /escher/status/d/a: Status
# revision 2, created at revision 2
batch: 7
phase: succeeded
node: n1
attempt: 1
ended: 1764417000312000000 # 2025-11-29T11:50:00.312Z
`},
		{"no bound", controlplane.ResourceKey("d", "slot", "*"), types.Encode(7, &types.Resource{Capacity: types.Inf}), `# /escher/resources/d/slot/*: Resource
# revision 2, created at revision 2
batch: 7
capacity: 9223372036854775807 # no bound
`},
		{"nested", controlplane.CordonKey("n1"), types.Encode(7, &types.Cordon{Reason: "a: \x1b[1m\nb"}), `# /escher/cordons/n1: Cordon
# revision 2, created at revision 2
batch: 7
reason: "a: \e[1m\nb"
`},
		{"later field", controlplane.ClusterKey(), append(types.Encode(7, &types.Cluster{ID: "c"}), 0xfa, 0x01, 2, 'h', 'i'), `# /escher/system/cluster: Cluster
# revision 2, created at revision 2
# 5 bytes are fields that this version does not know
# 010907000000000000001201...fa01026869
batch: 7
id: c
`},
		{"later version", controlplane.StatusKey("d", "a"), []byte{2, 1, 9}, `# /escher/status/d/a: Status
# revision 2, created at revision 2
# it counts as absent: decode *types.Status: not a value of version 1
# 020109
`},
		{"torn", controlplane.StatusKey("d", "a"), status[:14], `# /escher/status/d/a: Status
# revision 2, created at revision 2
# it counts as absent: decode *types.Status: unexpected EOF
# 0109070000000000000012097375
`},
		{"invalid", controlplane.StatusKey("d", "a"), types.Encode(7, &types.Status{Phase: "asleep"}), "# it counts as absent: decode *types.Status: phase"},
		{"unknown key", controlplane.Root + "other", []byte("hi"), `# /escher/other: unknown
# revision 2, created at revision 2
# Escher does not use this key
# 6869
`},
		{"token", controlplane.TokenKey("n1"), secret, "batch: 7\ntoken: …\n"},
		{"token of a torn value", controlplane.TokenKey("n1"), secret[:len(secret)-1], "# it counts as absent: "},
		{"token with more", controlplane.TokenKey("n1"), append(secret, 0xfa, 0x01, 2, 'h', 'i'), "# 5 bytes are fields"},
		{"token at no key of ours", controlplane.TokenKey("n1") + "/more", secret, "# Escher does not use this key\n"},
		{"token of a user", controlplane.Prefix(controlplane.Credentials) + "c1", types.Encode(7, &types.Credential{Subject: "user:bob", Hash: "sesame", Made: 1}), "hash: …\n"},
		{"secret", controlplane.SecretKey("d", "db"), types.Encode(7, &types.Secret{Key: "k1", Sealed: "\xff\x00x", Entries: []types.SecretEntry{{Name: "password", Size: 6}}}), "key: k1\nsealed: 3 bytes\nentries:\n  - name: password\n    size: 6\n"},
		{"environment", controlplane.SpecKey("d", strings.Repeat("a", 64)), types.Encode(7, &types.Spec{Image: "i", Env: []string{"A=open-sesame"}}), "  - A=…\n"},
		{"torn environment", controlplane.SpecKey("d", strings.Repeat("a", 64)), types.Encode(7, &types.Spec{Image: "i", Env: []string{"A=open-sesame"}})[:25], "# it counts as absent: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := got(t, table.Table, test.key, test.value)
			parts := strings.Split(test.want, "...")
			rest, ok := text, true
			for _, part := range parts {
				_, after, found := strings.Cut(rest, part)
				rest, ok = after, ok && found
			}
			if !ok {
				t.Errorf("got\n%s\nwant\n%s", text, test.want)
			}
			hides(t, test.name, text)
		})
	}
}

// hides checks that the output of a test about tokens or the environment has no secret.
func hides(t *testing.T, name, text string) {
	t.Helper()
	for _, secret := range []string{"sesame", fmt.Sprintf("%x", "sesame"), fmt.Sprintf("%x", "open"), "6869"} {
		if (strings.HasPrefix(name, "token") || strings.Contains(name, "environment")) && strings.Contains(text, secret) {
			t.Errorf("%s is in\n%s", secret, text)
		}
	}
}

// TestGetEncoded has the fields of the schema, and numbers that stay whole.
func TestGetEncoded(t *testing.T) {
	text := got(t, table.JSON, controlplane.StatusKey("d", "a"), types.Encode(1<<63+1, &types.Status{Phase: types.Failed, ExitCode: 3, Ended: 1764417000312000001}))
	for _, want := range []string{`"batch": 9223372036854775809`, `"exit_code": 3`, `"ended": 1764417000312000001`, `"kind": "Status"`, `"revision": 2`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if text := got(t, table.Name, controlplane.StatusKey("d", "a"), nil); text != "/escher/status/d/a\n" {
		t.Errorf("by name: %q", text)
	}
}
