// Package action represents what a person can do about a problem as data. Errors and explanations
// of the libraries contain actions; the program that prints them says how to perform each one
// there.
package action

import (
	"fmt"
	"strings"
)

// Verb is one kind of action.
type Verb int

// The verbs. The comment of each one names its arguments.
const (
	ListNodes        Verb = iota
	AwaitLost             // until a node counts as lost
	ListNodesFully        // with their racks, zones and addresses
	ListTasks             // ended ones included
	ListRunning           // tasks that have not ended
	ListTasksOf           // job
	ListJobs              //
	ListReservations      //
	ListPolicies          //
	ListNamespaces        //
	ListResources         //
	ListDevices           //
	ListFiles             // of the container of a task
	Describe              // task, job, node or reservation
	Explain               // task, job, node or reservation
	ExplainFully          // what Explain shortened
	ExplainOne            // one of several tasks
	DescribePolicies      // of a job, or a shared policy
	ShowOutput            // task
	ShowEvents            // task
	ShowState             //
	AwaitRunning          // task
	RunInside             //
	SubmitFile            //
	ApplyFile             //
	PlanAgain             //
	ReplaceLive           // by applying a file
	Stop                  // task or job
	StopSome              // tasks
	DeleteEnded           // tasks and jobs
	DeleteUnneeded        // anything of a namespace
	SetOnNode             // resource, amount, node
	SetOnEveryNode        // resource, amount
	SetInCluster          // resource, amount
	CreateResource        //
	ReserveBundle         // reservation, resource, amount
	Unreserve             // reservation
	RemovePolicy          // policy
	SetNamespace          // namespace
	RaiseBudget           // namespace, setting of its budget
	AllowPolicy           // namespace, shared policy of another one
	Drain                 //
	Uncordon              // node
	DeclareDead           // node
	ListUnreadable        //
	RepairKey             // key
	CheckMachine          //
	LoadImage             //
	SetSecret             // secret
	SetLogin              // registry
	StartNode             //
	RestartAgent          //
	StartServer           //
	AskServer             //
	CheckScheduler        //
	CheckDev              //

	// Settings of programs and tasks, for use within a sentence, such as "give tls-cert and
	// tls-key".

	StartAgentWith  // one or more settings of an agent follow
	AllowMount      // path
	AllowPrivileged //
	AllowCapability // name
	MaxPids         // number
	LabelNode       // name, value
	AgentName       //
	AgentListen     //
	AgentAdvertise  //
	AgentInsecure   //
	AgentCert       //
	AgentKey        //
	AgentPorts      //
	AgentStateDir   //
	AgentTTL        //
	AgentContainerd //
	AgentNoGPUs     //
	AgentServer     //
	EtcdEndpoints   //
	EtcdCert        //
	EtcdKey         //
	EtcdCA          //
	EtcdServerName  //
	ServerEtcdQuota //
	TaskCount       //
	TaskPerNode     //
	TaskMaxRun      //
	TaskRequest     // resource, amount
	TaskPort        //

	verbs // the number of verbs
)

// neutral has the texts of actions for readers whose program is unknown: a log, or a task that asks
// its socket. It also defines the number of arguments of each verb.
var neutral = [...]string{
	ListNodes:        "list the nodes",
	AwaitLost:        "check the nodes",
	ListNodesFully:   "list the nodes with their labels and addresses",
	ListTasks:        "list all tasks",
	ListRunning:      "list the running tasks",
	ListTasksOf:      "list the tasks of job %s",
	ListJobs:         "list the jobs",
	ListReservations: "list the reservations",
	ListPolicies:     "list the policies",
	ListNamespaces:   "list the namespaces with settings",
	ListResources:    "list the resources",
	ListDevices:      "list the devices",
	ListFiles:        "list the files of the container",
	Describe:         "describe %s",
	Explain:          "explain %s",
	ExplainFully:     "explain it in full",
	ExplainOne:       "explain one of them",
	DescribePolicies: "describe the policies of %s",
	ShowOutput:       "read the output of task %s",
	ShowEvents:       "read the events of task %s",
	ShowState:        "show the state of the cluster",
	AwaitRunning:     "wait until task %s runs",
	RunInside:        "run a program in the container",
	SubmitFile:       "submit it",
	ApplyFile:        "apply it",
	PlanAgain:        "review the plan",
	ReplaceLive:      "allow replacing",
	Stop:             "stop %s",
	StopSome:         "stop unneeded tasks",
	DeleteEnded:      "delete some of them",
	DeleteUnneeded:   "delete unneeded objects",
	SetOnNode:        "set %s to %s on node %s",
	SetOnEveryNode:   "set %s to %s on every node",
	SetInCluster:     "set %s to %s in the cluster",
	CreateResource:   "set the resource",
	ReserveBundle:    "reserve as %s %s=%s",
	Unreserve:        "delete reservation %s",
	RemovePolicy:     "remove policy %s",
	SetNamespace:     "change the settings of namespace %s",
	AllowPolicy:      "allow jobs of namespace %s to take part in %s",
	RaiseBudget:      "change %[2]s of namespace %[1]s",
	Drain:            "drain the node",
	Uncordon:         "uncordon node %s",
	DeclareDead:      "declare node %s dead",
	ListUnreadable:   "audit the cluster to find unreadable keys",
	RepairKey:        "repair key %s",
	CheckMachine:     "check the machine as root",
	LoadImage:        "load the image onto the node",
	SetSecret:        "set secret %s",
	SetLogin:         "set the password of its namespace for registry %s",
	StartNode:        "start an agent",
	RestartAgent:     "restart its agent",
	StartServer:      "start a server",
	AskServer:        "ask a server",
	CheckScheduler:   "check the server and its log",
	CheckDev:         "check whether the agent runs",

	StartAgentWith:  "start its agent with",
	AllowMount:      "allow-mount %s",
	AllowPrivileged: "allow-privileged",
	AllowCapability: "allow-cap %s",
	MaxPids:         "max-pids %s",
	LabelNode:       "label %s=%s",
	AgentName:       "node",
	AgentListen:     "listen",
	AgentAdvertise:  "advertise",
	AgentInsecure:   "insecure-listen",
	AgentCert:       "tls-cert",
	AgentKey:        "tls-key",
	AgentPorts:      "ports",
	AgentStateDir:   "state-dir",
	AgentTTL:        "ttl",
	AgentContainerd: "containerd",
	AgentNoGPUs:     "gpus none",
	AgentServer:     "server",
	EtcdEndpoints:   "endpoints",
	EtcdCert:        "cert",
	EtcdKey:         "key",
	EtcdCA:          "cacert",
	EtcdServerName:  "servername",
	ServerEtcdQuota: "etcd-quota",
	TaskCount:       "count",
	TaskPerNode:     "perNode",
	TaskMaxRun:      "maxRun",
	TaskRequest:     "request %s=%s",
	TaskPort:        "port",
}

// Verbs returns every verb.
func Verbs() []Verb {
	all := make([]Verb, verbs)
	for i := range all {
		all[i] = Verb(i)
	}
	return all
}

// Arguments returns the number of arguments of actions of the verb.
func (v Verb) Arguments() int { return strings.Count(neutral[v], "%") }

// Of returns the action of the verb with its arguments.
func (v Verb) Of(args ...string) Action { return Action{Verb: v, Args: args} }

// An Action is something that a person can do. As an argument of types.Errorf or types.Textf, by
// %s, it appears in the words of the program that prints the text.
type Action struct {
	Verb Verb
	Args []string
	// Namespace is the namespace of the action, if it differs from the person's own.
	Namespace string
}

// In returns the action in a namespace; empty means the person's own.
func (a Action) In(namespace string) Action {
	a.Namespace = namespace
	return a
}

// String returns the action in the neutral words of no program.
func (a Action) String() string {
	text := a.Fill(neutral[a.Verb])
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}

// Fill formats a text with the arguments of the action.
func (a Action) Fill(format string) string {
	if len(a.Args) == 0 {
		return format
	}
	args := make([]any, len(a.Args))
	for i, arg := range a.Args {
		args[i] = arg
	}
	return fmt.Sprintf(format, args...)
}

// Renderer renders an action in the words of one program.
type Renderer func(Action) string
