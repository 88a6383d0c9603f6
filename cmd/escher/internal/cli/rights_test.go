package cli

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// commandRights has a command line, and after | the rights that it needs: in the namespace or, after a semicolon, in
// the cluster. A line without rights is for every user; one with - sends no request. After # is the operation
// whose answer ends a command that follows changes. Rights after + are used if they are there, and ~ marks
// a command that prints less without further ones.
const commandRights = `
admin restored | -
apply -f $D/namespace.yaml | write tasks, write jobs, write resources, write reservations, write policies; write namespaces
apply -f $D/task.yaml | write tasks, write jobs, write resources, write reservations, write policies
attach web | read tasks, read jobs, read state
audit --repair | -
audit | ; read audit
auth can-i read tasks | read tasks
auth grant x --to user:bob --allow read,tasks --everywhere | ; write rights, read tasks
auth grant x --to user:bob --allow read,tasks --in default | write rights, read tasks
auth ls |
auth revoke own | write rights, read tasks
auth token create --for user:bob | ; write tokens
auth token create |
auth token ls |
auth token revoke none |
auth whoami |
completion bash | -
context describe here | -
context ls | -
context rm here | -
context set here --dir /x | -
context show | -
context use here | -
convert $D/slurm.sh | -
cp $D/file web:/tmp/x | read tasks, read jobs, read state, enter tasks
cp web:/tmp/x $D/back | read tasks, read jobs, read state, enter tasks
delete -f $D/job.yaml | read tasks, read jobs, read state, write tasks, write jobs
describe fair | read tasks, read jobs, read resources, read reservations, read policies, read state, read namespaces, read nodes
describe n1 | read tasks, read jobs, read reservations, read state, read nodes ~
describe room | read tasks, read jobs, read reservations, read state, read nodes
describe train | read tasks, read jobs, read reservations, read policies, read state, read nodes
describe web | read tasks, read jobs, read reservations, read state, read nodes
events -f | read tasks, read jobs, read state, read nodes # watchKeys
events web | read tasks, read jobs, read state, read nodes
events | read tasks, read jobs, read state, read nodes
exec web -- ls | read tasks, read jobs, read state, enter tasks
explain job | -
get --raw nodes/n1 | read state, read nodes
get --raw tasks/default/x | read tasks, read state
gpus | read tasks, read reservations, read state, read nodes
history -A | ; read history
history | read history
image describe x:1 | read state, read nodes; read images
image load $D/file | read state, read nodes; write images
image ls | read state, read nodes; read images
image pull x:1 --node n1 | read state, read nodes; write images
job describe train | read jobs, read policies, read state, read nodes
job why train | read jobs, read state, read nodes ~
jobs -w | read jobs, read state # watchKeys
jobs | read tasks, read jobs, read state
kill web | read tasks, read jobs, read state, write tasks
log -n default | read audit
log | ; read audit
logs -f web | read tasks, read jobs, read state, read logs # watchKeys
logs web | read tasks, read jobs, read state, read logs
namespace create team --max-keys 9 | ; write namespaces
namespace describe default | read namespaces
namespace ls |
namespace rm lab | ; write namespaces
namespace set default --max-keys 100 | read namespaces; write namespaces
node cordon n1 | read state, read nodes; write nodes
node describe n1 | read state, read nodes ~
node drain n1 -d | read state, read nodes; write nodes
node label n1 a=b | read state, read nodes; write nodes
node rm gone | read state, read nodes; write nodes
node uncordon n1 | read state, read nodes; write nodes
node why n1 | read state, read nodes; read audit ~
nodes -w | read state, read nodes # watchKeys
nodes | read state
plan -f $D/task.yaml | read tasks, read jobs, read resources, read reservations, read policies
policies describe fair | read tasks, read jobs, read resources, read reservations, read policies, read state, read namespaces, read nodes
policies kinds | -
policies log fair | -
policies ls | read jobs, read policies, read state
policies rm --force fair | write policies, write resources ~
policies | read jobs, read policies, read state
port-forward web :80 | read tasks, read jobs, read state, enter tasks # canI
ps -a | read tasks, read jobs, read state
ps -w | read tasks, read state # watchKeys
ps | read tasks, read jobs, read state
pull x:1 --node n1 | read state, read nodes; write images
rerun -d train | read tasks, read jobs, read state, write tasks, write jobs, write policies
reservation describe room | read reservations, read state, read nodes
reservation why room | read reservations, read state, read nodes
reservations -w | read reservations, read state # watchKeys
reservations | read reservations, read state
reserve big --bundle cpu=1 | write reservations
resource describe slots | read tasks, read jobs, read resources, read reservations, read state, read nodes
resource rm slots | read resources, read state, write resources
resources | read state
rm --force web | read tasks, read jobs, read state, write tasks # watchKeys
rm old | read tasks, read jobs, read state, write tasks
rm train | read tasks, read jobs, read state, write tasks, write jobs
run -d x:1 | write tasks, write jobs, write policies
schema | -
secret ls | read secrets
secret rm db | write secrets
secret set new a=b | write secrets
set-resource slots 3 --node n1 | read state, read nodes, write resources
state | read state
stop train | read tasks, read jobs, read state, write tasks, write jobs
stop web | read tasks, read jobs, read state, write tasks
submit -f $D/task.yaml | write tasks, write jobs, write policies
task describe web | read tasks, read state, read nodes
task why web | read tasks, read state, read nodes
top --once | read state + read tasks, read nodes
unreserve room | read reservations, read state, write reservations
usage -n default | read history
usage | ; read history
version | -
wait train | read tasks, read jobs, read state
why fair | read tasks, read jobs, read resources, read reservations, read policies, read state, read namespaces, read nodes
why n1 | read tasks, read jobs, read reservations, read state, read nodes; read audit
why room | read reservations, read state, read nodes
why train | read tasks, read jobs, read reservations, read state, read nodes
why web | read tasks, read jobs, read reservations, read state, read nodes
`

// unasked are the commands that the test does not run, with the reason.
func unasked() map[string]string {
	return map[string]string{
		"escher admin certificate": "makes files", "escher admin secrets-key": "makes a file", "escher image make": "makes an image of a file of this machine, and loads it as escher image load does",
		"escher agent": "runs an agent", "escher dev": "runs a cluster", "escher server": "runs a server", "escher bench": "runs a cluster", "escher node doctor": "looks at this machine",
		"escher login": "stores a token",
	}
}

// unreached are the operations that no command line of the test reaches, with the reason.
func unreached() map[string]string {
	const node, inTask, programs = "no node answers here", "commands in a task use its socket: see requests.TestModes", "programs ask it: commands read the keys"
	return map[string]string{
		"getLogin": "needs no right", "certifyNode": "agents ask it", "openSecrets": "agents ask it", "openLogin": "agents ask it",
		"listLayers": "agents ask it", "exportWorkdir": "agents ask it", "holdUnit": inTask, "watchPeers": inTask, "waitTasks": inTask, "evictTask": inTask, "watch": inTask,
		"getNodeUsage": node, "getPull": node, "listLackingLayers": node, "forwardPort": node, "getFiles": node, "putFiles": node, "attachToTask": node,
		"listNodes": programs, "getNode": programs, "listTasks": programs, "getTask": programs, "listAttempts": programs, "listJobs": programs, "getJob": programs,
		"listResources": programs, "listReservations": programs, "listPolicies": programs, "transact": programs,
	}
}

// commandRow is a line of commandRights.
type commandRow struct {
	line, follows string
	// inNamespace and inCluster are the rights that it needs.
	inNamespace, inCluster []rights.Need
	// more are rights in the namespace that it uses if the user has them.
	more         []rights.Need
	local, fewer bool
}

// commandRows parses commandRights.
func commandRows(t *testing.T) (rows []commandRow) {
	t.Helper()
	needs := func(text string) (all []rights.Need) {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			n, err := rights.ParseNeed(part)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
		return all
	}
	for text := range strings.SplitSeq(strings.TrimSpace(commandRights), "\n") {
		var r commandRow
		line, rest, _ := strings.Cut(text, "|")
		rest, r.follows, _ = strings.Cut(rest, "#")
		rest, more, _ := strings.Cut(rest, "+")
		rest, r.fewer = strings.CutSuffix(strings.TrimSpace(rest), "~")
		r.line, r.follows = strings.TrimSpace(line), strings.TrimSpace(r.follows)
		if r.local = rest == "-"; !r.local {
			in, cluster, _ := strings.Cut(rest, ";")
			r.inNamespace, r.inCluster, r.more = needs(in), needs(cluster), needs(more)
		}
		rows = append(rows, r)
	}
	return rows
}

// without names the user that has every right everywhere, but for one: a right in the namespace it has in another
// namespace, and one in the cluster it has in a namespace.
func without(n rights.Need, inCluster bool) string {
	return "not-" + string(n.Verb) + "-" + string(n.Kind) + map[bool]string{true: "-in-cluster"}[inCluster]
}

// everyNeed lists all rights.
func everyNeed() (all []rights.Need) {
	for _, v := range rights.Verbs() {
		for _, k := range rights.Kinds() {
			all = append(all, rights.Need{Verb: v, Kind: k})
		}
	}
	return all
}

// users gives each user its rights, and waits until the server knows them.
func (s *rightsServer) users(rows []commandRow) {
	s.t.Helper()
	for _, n := range everyNeed() {
		for _, inCluster := range []bool{false, true} {
			user := without(n, inCluster)
			s.allow(user, user, []string{types.Everywhere}, slices.DeleteFunc(everyNeed(), func(x rights.Need) bool { return x == n })...)
			if !n.Open() {
				s.allow(user, user+"-elsewhere", []string{map[bool]string{true: "default", false: "elsewhere"}[inCluster]}, n)
			}
		}
	}
	for i, row := range rows {
		user := "exact-" + strconv.Itoa(i)
		s.allow(user, user, []string{"default"}, slices.Concat(row.inNamespace, row.more)...)
		s.allow(user, user+"-in-cluster", []string{types.Everywhere}, row.inCluster...)
	}
	s.allow("last", "zz-last", []string{types.Everywhere}, everyNeed()...)
	s.await(func() bool { return s.authority.May(access.Identity{Subject: "user:last"}, everyNeed()[0], "") == nil })
}

// TestRightsOfCommands runs each command that talks to a server as a user with exactly the rights that it needs:
// it is let through. Without one of them, and with all others, it is refused with the name of that right,
// and changes nothing.
func TestRightsOfCommands(t *testing.T) {
	rows := withNouns(t, commandRows(t))
	s := newRightsServer(t)
	s.users(rows)
	before := s.revision()
	for _, row := range rows {
		for _, need := range row.inNamespace {
			s.mayNot(row, need, false)
		}
		for _, need := range row.inCluster {
			s.mayNot(row, need, true)
		}
	}
	if now := s.revision(); now != before {
		t.Errorf("refused commands moved the store from revision %d to %d", before, now)
	}
	kept := s.content()
	reached := make(map[string]bool)
	for i, row := range rows {
		s.may(row, "exact-"+strconv.Itoa(i), reached)
		s.restore(kept)
	}
	exceptions := unreached()
	for _, row := range access.Table() {
		if _, excepted := exceptions[row.Operation]; excepted == reached[row.Operation] {
			t.Errorf("operation %s: a command reaches it: %t; among the exceptions: %t", row.Operation, reached[row.Operation], excepted)
		}
	}
}

// mayNot runs a command as a user without a right.
func (s *rightsServer) mayNot(row commandRow, need rights.Need, inCluster bool) {
	s.t.Helper()
	user, before := without(need, inCluster), s.revision()
	code, said, asked := s.run(user, row.line, "")
	missing := "user:" + user + ": has no right to " + need.String() + " in "
	if where := "namespace default"; !need.Open() { // others are in the namespace or in the cluster
		missing += map[bool]string{true: "the cluster", false: where}[inCluster]
	}
	denied := code == types.Denied.ExitCode() || code == cmdutil.ExitFailed && strings.Contains(said, "escher failed, not the task: denied")
	if !denied || !strings.Contains(said, missing) || !strings.Contains(said, ": ask an administrator for a role there (escher auth grant)") {
		s.t.Errorf("escher %s without the right to %s (in the cluster: %t): exit code %d, %v: %s", row.line, need, inCluster, code, asked, said)
	}
	if now := s.revision(); now != before {
		s.t.Errorf("escher %s without the right to %s moved the store from revision %d to %d", row.line, need, before, now)
	}
}

// may runs a command as a user that has exactly its rights, and notes the operations that it reaches.
func (s *rightsServer) may(row commandRow, user string, reached map[string]bool) {
	s.t.Helper()
	code, said, asked := s.run(user, row.line, row.follows)
	refused := 0
	for op, status := range asked {
		if status == http.StatusForbidden || status == http.StatusUnauthorized {
			refused++
		} else {
			reached[op] = true
		}
	}
	if code == types.Denied.ExitCode() || code == types.Internal.ExitCode() && row.follows == "" || strings.Contains(said, "not the task: denied") || (refused > 0) != row.fewer {
		s.t.Errorf("escher %s with the rights to %s %s: exit code %d, %v: %s", row.line, row.inNamespace, row.inCluster, code, asked, said)
	}
	if (len(asked) == 0) != row.local {
		s.t.Errorf("escher %s asks the server for %v", row.line, slices.Collect(maps.Keys(asked)))
	}
}

// withNouns adds to the rows the commands below nouns that are the same as others, such as escher task run. It checks
// that each command has a row, or is an exception.
func withNouns(t *testing.T, rows []commandRow) []commandRow {
	t.Helper()
	root := newRoot(&cmdutil.Factory{})
	by, exceptions := make(map[string][]commandRow), unasked()
	for _, row := range rows {
		cmd, _, err := root.Find(strings.Fields(row.line))
		if err != nil || cmd == root {
			t.Fatalf("escher %s: %v", row.line, err)
		}
		by[cmd.CommandPath()] = append(by[cmd.CommandPath()], row)
	}
	for _, cmd := range everyCommand(root) {
		path := cmd.CommandPath()
		if same := "escher " + cmd.Annotations[sameAs]; len(by[path]) == 0 && len(by[same]) > 0 {
			for _, row := range by[same] {
				row.line = strings.TrimPrefix(path, "escher ") + strings.TrimPrefix(row.line, strings.TrimPrefix(same, "escher "))
				rows = append(rows, row)
			}
			continue
		}
		if _, excepted := exceptions[path]; !cmd.HasSubCommands() && excepted == (len(by[path]) > 0) {
			t.Errorf("%s: it has rows: %t; it is among the exceptions: %t", path, len(by[path]) > 0, excepted)
		}
		delete(exceptions, path)
	}
	for path := range exceptions {
		t.Errorf("%s is among the exceptions, and there is no such command", path)
	}
	return rows
}
