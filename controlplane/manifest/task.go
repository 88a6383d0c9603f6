package manifest

import "github.com/escher-sched/escher/types"

// Task is a task to launch. Fields without omitempty are required, here and in all types below.
type Task struct {
	ID           string             `json:"id,omitempty" desc:"unique forever; made from the name if it is left out" is:"name"`
	Name         string             `json:"name,omitempty" desc:"a label; the id begins with it" is:"name"`
	Labels       map[string]string  `json:"labels,omitempty" desc:"labels to select it by, besides those of its job" is:"label" keys:"label-key"`
	Requests     types.Requests     `json:"requests,omitempty" desc:"amounts of resources, all of it on one node"`
	Alternatives []Alternative      `json:"alternatives,omitempty" desc:"one of these is requested too, the first that fits"`
	Devices      []Devices          `json:"devices,omitempty" desc:"restrictions on the devices of the requests, with any alternative"`
	Provides     []Provide          `json:"provides,omitempty" desc:"resources that the task adds to its node"`
	Spec         Spec               `json:"spec" desc:"what to run: its fields may also stand without it" group:""`
	Priority     int                `json:"priority,omitempty" desc:"the higher comes first"`
	Scheduler    string             `json:"scheduler,omitempty" desc:"the name of the scheduler that places it" is:"name"`
	OnDisconnect types.OnDisconnect `json:"onDisconnect,omitempty" desc:"when its node is cut off: fence ends it there and tries elsewhere, stop ends it for good, keep lets it run on"`
	MaxRun       types.Duration     `json:"maxRun,omitempty" desc:"how long an attempt may run; without limit if it is left out" zero:"is not a duration: give one above zero, or leave it out for no limit"`
	Retries      int                `json:"retries,omitempty" desc:"how many more attempts follow failed ones, on any node, after a wait of 1s that doubles up to 5m" min:"0"`
	Deadline     Deadline           `json:"deadline,omitempty" desc:"when it fails if it has not ended: a time, or how long after its submission"`
	Session      string             `json:"session,omitempty" desc:"the session it is stopped with" is:"name"`
	Accumulate   bool               `json:"accumulate,omitempty" desc:"collects free capacity piecemeal on one node, once it has waited"`
}

// Alternative is one of several vectors of requests.
type Alternative struct {
	Requests types.Requests `json:"requests" desc:"what is requested too"`
	After    types.Duration `json:"after,omitempty" desc:"how long after its submission the task may take it"`
}

// Devices restricts the devices of one request.
type Devices struct {
	Resource  string         `json:"resource" desc:"the request, such as gpu or gpu@train" is:"request"`
	Model     []string       `json:"model,omitempty" desc:"words of its model, such as H100; any of several"`
	MinMemory Size           `json:"minMemory,omitempty" desc:"the least memory of each, such as 40Gi"`
	Topology  types.Topology `json:"topology,omitempty" desc:"nvlink: all are linked to each other; numa: all are on one NUMA node"`
}

// Provide is a resource that a task adds to its node.
type Provide struct {
	Name   string       `json:"name" desc:"the resource" is:"resource"`
	Amount types.Amount `json:"amount" desc:"how much of it"`
	When   types.When   `json:"when" desc:"from when on"`
}

// Spec is the program to run.
type Spec struct {
	Image      string         `json:"image" desc:"the image, such as docker.io/library/busybox:1.36" is:"image"`
	Entrypoint []string       `json:"entrypoint,omitzero" desc:"replaces the image's entry point and arguments; [] means none"`
	Command    []string       `json:"command,omitempty" desc:"arguments of the entry point, which replace the image's; the program and its arguments if there is no entry point"`
	Run        string         `json:"run,omitempty" desc:"a script to run instead of the entry point and a command, by sh -e unless its first line is such as #!/bin/bash" is:"script" without:"command entrypoint"`
	Env        Env            `json:"env,omitempty" desc:"added to the image's environment: {NAME: value}, or a list of NAME=value"`
	Dir        string         `json:"dir,omitempty" desc:"working directory" is:"absolute"`
	Workdir    *Workdir       `json:"workdir,omitempty" desc:"a directory with your code, . for that of the file, in the container; the working directory unless dir is given"`
	User       string         `json:"user,omitempty" desc:"uid[:gid], or the name of a user in the image"`
	Grace      types.Duration `json:"grace,omitempty" desc:"time between the stop signal and the kill; 10s if it is left out" zero:"does not mean at once: give 1ms for that, or leave it out for 10s"`
	Restart    *Restart       `json:"restart,omitempty" desc:"when a process that ended by itself is restarted, on the same node; never if it is left out"`
	StopSignal string         `json:"stopSignal,omitempty" desc:"asks the process to end; the image's or SIGTERM if it is left out"`
	Stdin      bool           `json:"stdin,omitempty" desc:"gives it an input, which one client passes, once; not with restart or retries"`
	TTY        bool           `json:"tty,omitempty" desc:"gives it a terminal"`
	Mounts     []Mount        `json:"mounts,omitempty" desc:"directories and files made visible in the container"`
	Secrets    []Secret       `json:"secrets,omitempty" desc:"secrets whose values it gets, in variables or in files in memory"`
	Ports      []Port         `json:"ports,omitempty" desc:"ports of the node that it listens at: a name for one that the node chooses, or a number; they are requested too"`
	Peers      types.Peers    `json:"peers,omitempty" desc:"the tasks of its job whose addresses it knows: whole, all of them, for which it waits; any, those that have one at its start; running, those that run; gang and elastic set it if it is left out"`

	Pids         int               `json:"pids,omitempty" desc:"how many processes and threads it may have; the node's default if it is left out" zero:"is not enough: give at least 1, or leave it out for the node's default"`
	CPULimit     types.CPULimit    `json:"cpuLimit,omitempty" desc:"none lets it use idle cpu; no more than it requests if it is left out"`
	CapAdd       []string          `json:"capAdd,omitempty" desc:"capabilities to add, such as NET_ADMIN; most only on nodes that allow it"`
	CapDrop      []string          `json:"capDrop,omitempty" desc:"capabilities to drop, or ALL"`
	ReadOnlyRoot bool              `json:"readOnlyRoot,omitempty" desc:"keeps it from writing to the files of its image"`
	Privileged   bool              `json:"privileged,omitempty" desc:"grants the rights of the node's root user; only on nodes that allow it"`
	MemoryLimit  Size              `json:"memoryLimit,omitempty" desc:"the most memory it may use, at least what it requests; that if it is left out"`
	Shm          Size              `json:"shm,omitempty" desc:"size of its shared memory, /dev/shm; half of its memory if it is left out, or 64Mi without a request for memory"`
	Tmpfs        []Tmpfs           `json:"tmpfs,omitempty" desc:"file systems in memory; their content counts as its memory"`
	Ulimits      map[string]Limits `json:"ulimits,omitempty" desc:"limits of each process, such as {memlock: -1, nofile: 4096:65536}" keys:"ulimit"`

	Socket        types.Socket `json:"socket,omitempty" desc:"what it may do through its task socket: all of its namespace, self, or none; namespace if it is left out"`
	Checks        []Check      `json:"checks,omitempty" desc:"probes that show whether it does its work"`
	NoHealthcheck bool         `json:"noHealthcheck,omitempty" desc:"ignores the HEALTHCHECK of the image, which counts if there are no checks"`
	Warn          *Warn        `json:"warn,omitempty" desc:"a signal some time before it is asked to end"`
	Init          bool         `json:"init,omitempty" desc:"runs it below a small init, which passes on signals and reaps orphaned processes"`
}

// Restart says when to restart a process.
type Restart struct {
	When     types.RestartWhen `json:"when" desc:"after which ends"`
	Limit    int               `json:"limit,omitempty" desc:"how often at most; without limit if it is left out" zero:"does not mean never: leave restart out for never, or limit for no limit"`
	Delay    types.Duration    `json:"delay,omitempty" desc:"the wait before the first restart, doubled for each that follows; 1s if it is left out" zero:"is not a wait: give a longer time, or leave it out for 1s"`
	MaxDelay types.Duration    `json:"maxDelay,omitempty" desc:"the longest wait; 5m if it is left out" zero:"is not a wait: give a longer time, or leave it out for 5m"`
}

// Mount makes a directory or file visible.
type Mount struct {
	Source   string `json:"source,omitempty" desc:"a path of the node, which must allow it; an empty directory of the task's own if it is left out" is:"absolute"`
	Target   string `json:"target" desc:"the path in the container" is:"absolute" some:""`
	ReadOnly bool   `json:"readOnly,omitempty" desc:"keeps the task from writing there"`
}

// Tmpfs is a file system in memory.
type Tmpfs struct {
	Target string `json:"target" desc:"the path in the container" is:"absolute" some:""`
	Size   Size   `json:"size,omitempty" desc:"its size; half of the memory of the task if it is left out, or 64Mi without a request for memory"`
}

// Secret says how a task gets the values of a secret.
type Secret struct {
	Name string            `json:"name" desc:"the secret, in the namespace of the task" is:"name"`
	Env  map[string]string `json:"env,omitempty" desc:"variables, each with the name of a value of the secret: {PASSWORD: password}" is:"name" keys:"variable"`
	Dir  string            `json:"dir,omitempty" desc:"a directory in memory, with a file for each value" is:"absolute"`
}

// Port is a port of the node. In files it may be a name, or a number, too.
type Port struct {
	Name   string `json:"name" desc:"a name; http is found in ESCHER_PORT_HTTP" is:"name"`
	Number int    `json:"number,omitempty" desc:"this port; one that the node chooses if it is left out" min:"0" max:"65535"`
}

// Job is a set of tasks: a number of copies of a template, or a list.
type Job struct {
	Name   string            `json:"name,omitempty" desc:"a label; the id begins with it" is:"name"`
	Labels map[string]string `json:"labels,omitempty" desc:"labels of the job, and of its tasks unless they have their own value" is:"label" keys:"label-key"`

	Count    int    `json:"count,omitempty" desc:"how many tasks like the template; 1 if it is left out" zero:"is not enough: give 1 to 100000, or leave it out for 1" max:"100000" needs:"template"`
	Array    *Array `json:"array,omitempty" desc:"a task like the template for each index, instead of count" needs:"template"`
	Template *Task  `json:"template,omitempty" desc:"what each task is" or:"tasks" without:"tasks"`
	Tasks    []Task `json:"tasks,omitempty" desc:"the tasks, instead of count and template"`

	Update *Update `json:"update,omitempty" desc:"how apply replaces tasks that differ, one after the other; all at once if it is left out" without:"array"`

	Policies []Policy `json:"policies,omitempty" desc:"policies of its tasks, such as gang; all of them apply"`
}

// Resource is an ephemeral resource to set.
type Resource struct {
	Name     string         `json:"name" desc:"the resource" is:"resource"`
	Capacity types.Amount   `json:"capacity" desc:"the amount, on each node; inf means no bound, 0 removes it"`
	Where    *Where         `json:"where" desc:"where it is; {} means every node, present and future"`
	Declare  bool           `json:"declare,omitempty" desc:"keeps it when its capacity is 0: it exists, and is closed"`
	Lifetime types.Lifetime `json:"lifetime,omitempty" desc:"the kind of owner with which it ends; none if it is left out"`
	Owner    string         `json:"owner,omitempty" desc:"the id of the task, session, reservation, job or policy of that lifetime"`
	Future   bool           `json:"future,omitempty" desc:"allows labels that no node has yet"`
}

// Where is the location of a resource; an empty one means every node.
type Where struct {
	Nodes     []string          `json:"nodes,omitempty" desc:"these nodes"`
	Labels    map[string]string `json:"labels,omitempty" desc:"every node with these labels, present and future"`
	Available types.Requests    `json:"available,omitempty" desc:"the nodes with that much free now"`
	Cluster   bool              `json:"cluster,omitempty" desc:"one pool for the whole cluster"`
}

// Reservation is a set of bundles to lock.
type Reservation struct {
	Name       string   `json:"name" desc:"its id: a task draws on it by requests such as gpu@<name>" is:"name"`
	Bundles    []Bundle `json:"bundles" desc:"what is locked, all or none" some:""`
	Priority   int      `json:"priority,omitempty" desc:"the higher comes first"`
	Session    string   `json:"session,omitempty" desc:"the session it ends with" is:"name"`
	Accumulate bool     `json:"accumulate,omitempty" desc:"collects free capacity piecemeal, once it has waited"`

	Lost types.LostBundles `json:"lost,omitempty" desc:"bundles on a lost or drained node: wait keeps them there, move moves them once other nodes fit all of them"`
}

// Bundle is a request vector to lock on one node.
type Bundle struct {
	Requests types.Requests `json:"requests" desc:"amounts of resources" some:""`
	Node     string         `json:"node,omitempty" desc:"where it must be; anywhere if it is left out" is:"name"`
	Devices  []Devices      `json:"devices,omitempty" desc:"restrictions on the devices of the requests"`
}

// BundleOf returns the form in files of a stored bundle.
func BundleOf(b types.Bundle) Bundle {
	return Bundle{Requests: b.Requests, Node: b.Node, Devices: fromDeviceRequests(b.Devices)}
}

// Bundle returns its stored form.
func (b Bundle) Bundle() types.Bundle {
	return types.Bundle{Requests: b.Requests, Node: b.Node, Devices: deviceRequests(b.Devices)}
}
