// Package action has the things that a person can do about a problem, as data: errors and
// explanations of the libraries name them, and the program that prints these says how each
// is done there.
package action

import (
	"fmt"
	"strings"
)

// Verb is one thing that a person can do.
type Verb int

// The verbs. The comment of each names its arguments.
const (
	ListNodes        Verb = iota
	AwaitLost             // until a node counts as lost
	ListNodesFully        // with their racks, zones and addresses
	ListTasks             // those that have ended included
	ListRunning           // the tasks that have not ended
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
	Drain                 //
	Uncordon              // node
	DeclareDead           // node
	ListUnreadable        //
	RepairKey             // key
	CheckMachine          //
	LoadImage             //
	StartNode             //
	RestartAgent          //
	StartServer           //
	CheckScheduler        //
	CheckDev              //

	// The settings of programs and tasks: said in a sentence, such as "give tls-cert and
	// tls-key".

	StartAgentWith  // with one or more settings of an agent, which follow
	AllowMount      // path
	AllowMounts     //
	AllowPrivileged //
	AllowCapability // name
	MaxPids         // number
	AgentLabel      // name, value
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
	AgentCDIDir     //
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

	verbs // how many there are
)

// neutral are the texts of actions for somebody whose program is not known: a log, a task
// that asks its socket. The same table says how many arguments a verb has.
var neutral = [...]string{
	ListNodes:        "list the nodes",
	AwaitLost:        "look at the nodes",
	ListNodesFully:   "list the nodes with their labels and addresses",
	ListTasks:        "list all tasks",
	ListRunning:      "list the tasks that run",
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
	ShowOutput:       "read the output of task %s",
	ShowEvents:       "read the events of task %s",
	ShowState:        "look at the state of the cluster",
	AwaitRunning:     "wait until task %s runs",
	RunInside:        "run a program in the container",
	SubmitFile:       "submit it",
	ApplyFile:        "apply it",
	PlanAgain:        "look at the plan again",
	ReplaceLive:      "allow replacing",
	Stop:             "stop %s",
	StopSome:         "stop what is not needed",
	DeleteEnded:      "delete some of it",
	DeleteUnneeded:   "delete what it no longer needs",
	SetOnNode:        "set %s to %s on node %s",
	SetOnEveryNode:   "set %s to %s on every node",
	SetInCluster:     "set %s to %s in the cluster",
	CreateResource:   "set the resource",
	ReserveBundle:    "reserve as %s %s=%s",
	Unreserve:        "give up reservation %s",
	RemovePolicy:     "remove policy %s",
	SetNamespace:     "change the settings of namespace %s",
	RaiseBudget:      "change %[2]s of namespace %[1]s",
	Drain:            "drain the node",
	Uncordon:         "uncordon node %s",
	DeclareDead:      "declare node %s dead",
	ListUnreadable:   "audit the cluster to find those that cannot be read",
	RepairKey:        "repair key %s",
	CheckMachine:     "check the machine as root",
	LoadImage:        "load the image onto the node",
	StartNode:        "start an agent",
	RestartAgent:     "start its agent again",
	StartServer:      "start a server",
	CheckScheduler:   "look at the server and its log",
	CheckDev:         "look whether the agent runs",

	StartAgentWith:  "start its agent with",
	AllowMount:      "allow-mount %s",
	AllowMounts:     "allow-mount",
	AllowPrivileged: "allow-privileged",
	AllowCapability: "allow-cap %s",
	MaxPids:         "max-pids %s",
	AgentLabel:      "label %s=%s",
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
	AgentCDIDir:     "cdi-dir",
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

// Verbs returns all verbs.
func Verbs() []Verb {
	all := make([]Verb, verbs)
	for i := range all {
		all[i] = Verb(i)
	}
	return all
}

// Arguments returns the number of arguments of actions of the verb.
func (v Verb) Arguments() int { return strings.Count(neutral[v], "%") }

// Of returns the action of doing it with so many arguments as the verb has.
func (v Verb) Of(args ...string) Action { return Action{Verb: v, Args: args} }

// Action is something that a person can do. As an argument of types.Errorf or types.Textf,
// by %s, it is said in the words of the program that prints the text.
type Action struct {
	Verb Verb
	Args []string
	// Namespace is where it is done, if that is another one than where the person is.
	Namespace string
}

// In returns the action in a namespace; empty is the one where the person is.
func (a Action) In(namespace string) Action {
	a.Namespace = namespace
	return a
}

// String returns the action in words that are of no program.
func (a Action) String() string {
	text := a.Fill(neutral[a.Verb])
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}

// Fill returns a format with the arguments of the action.
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

// Voice says how an action is done.
type Voice func(Action) string
