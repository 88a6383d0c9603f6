package types

import "time"

// The limits of everything that is stored, in one place, each with its reason. Writers
// refuse what is above them before anything is written; readers treat a stored value
// above them as absent (see Decode).
const (
	// MaxName is the longest name or id, in bytes: a DNS label, so that names of tasks
	// and nodes can become host names.
	MaxName = 63
	// MaxText bounds a short text: a version, an address, a label, the id of a device.
	// Longer ones break tables.
	MaxText = 255
	// MaxDomain bounds a domain or the last part of a name such as acme.com/fpga.
	MaxDomain = MaxName
	// MaxReason is the longest reason, in bytes: a screen of text. A reason is copied
	// from report to status and from stop to binding, so it has to fit beside others in
	// one transaction.
	MaxReason = 1 << 10
	// MaxPath is the longest path, in bytes: PATH_MAX of Linux.
	MaxPath = 4 << 10
	// MaxImage is the longest image reference, in bytes: 255 for the repository, 128 for
	// the tag and 71 for the digest, and some for a registry.
	MaxImage = 512
	// MaxWords bounds a command in bytes, and so the environment: MAX_ARG_STRLEN of
	// Linux, which an execve of both has to stay well below.
	MaxWords = 128 << 10
	// MaxSpecBytes bounds an encoded Spec, and MaxTaskBytes a Task: one of each and what
	// a launch adds to them fit the 1.5 MiB that etcd accepts at once.
	MaxSpecBytes = 512 << 10
	MaxTaskBytes = 256 << 10
	// MaxMessageBytes bounds every other value: two of them, as an agent's report and
	// the status made of it, fit a transaction with the rest of it.
	MaxMessageBytes = 1 << 20

	// MaxRequests bounds the resources of one vector: every one of them may
	// take a compare of the 128 that a stock etcd allows a transaction.
	MaxRequests = 100
	// MaxProvides bounds what one task provides: each adds a key to the release.
	MaxProvides = 100
	// MaxAlternatives bounds the alternatives of one task: each is a search.
	MaxAlternatives = 16
	// MaxBundles bounds one reservation: each is a part of one transaction.
	MaxBundles = 4096
	// MaxDevices bounds the devices of one node, and of one holding, ports included.
	MaxDevices = 1 << 16
	// MaxCapacities bounds what a node has of physical resources, the permits included.
	MaxCapacities = 1024
	// MaxLabels bounds the labels of one node: each selector compares them.
	MaxLabels = 256
	// MaxHeld bounds the resources of which some is in use on one node: each is a part of
	// a value that every bind and release there writes anew. What is bound last may exceed
	// it by its own requests, and still fits MaxMessageBytes.
	MaxHeld = 4096
	// MaxSelected bounds the nodes that one selector names: 10,000 machines is the
	// largest cluster.
	MaxSelected = 10_000
	// MaxQuotas bounds the quotas of one namespace: each adds a holding to each task.
	MaxQuotas = 100
	// MaxPolicies bounds the policies of one job, and MaxPolicyBytes the parameters of
	// one: they are read at each decision about the job.
	MaxPolicies    = 64
	MaxPolicyBytes = 64 << 10
	// MaxJobTasks bounds the tasks of one job: as many as may wait in a cluster.
	MaxJobTasks = 10_000_000
	// MaxMounts bounds the mounts of one container.
	MaxMounts = 100
	// MaxPorts bounds the ports of one task.
	MaxPorts = 100
	// MaxChecks bounds the checks of one task: each is a probe now and then.
	MaxChecks = 8
	// MaxCheckWords bounds the command of one check, in bytes: it is sent with each probe.
	MaxCheckWords = 16 << 10
	// MaxCheckCount bounds failures and successes in a row.
	MaxCheckCount = 1000
	// MinCheckEvery is the least time between two probes: one in a container takes a
	// tenth of a second of a core.
	MinCheckEvery = time.Second
	// MaxModels bounds the models of one device request, and MaxModel is the longest of
	// them, in bytes.
	MaxModels = 16
	MaxModel  = 100
	// MaxPids is how many processes and threads Linux can have at all.
	MaxPids = 1 << 22

	// MaxQuantity is the largest amount that is bounded: 8 PiB, or 9,007,199,254,740
	// units. Up to it a double, and so JSON in every language, is exact.
	MaxQuantity Quantity = 1 << 53
	// MaxAllocated is the most that may be in use of one resource in one place. It is so
	// far below the largest integer that no sum of two of them overflows. A bind that
	// would exceed it does not fit: see Quantity.Minus.
	MaxAllocated Quantity = 1 << 61
	// MaxPriority bounds priorities on both sides, and so what a task is raised by: the
	// sum of both fits 32 bits.
	MaxPriority = 1_000_000_000
	// MaxCount bounds a number of attempts, restarts or retries.
	MaxCount = 1_000_000_000
	// MaxDuration bounds every duration: added to any moment of this century it is a
	// moment.
	MaxDuration = 100 * 365 * 24 * time.Hour
	// MaxGrace bounds the time between a stop signal and the kill: a node that is to be
	// drained waits for it.
	MaxGrace = 7 * 24 * time.Hour
	// MaxIndex bounds an index of raft: no log gets so long, and an eighth more is no overflow.
	MaxIndex = 1 << 60
	// MaxMoment bounds a moment, in Unix nanoseconds: the year 2150, after which
	// nanoseconds and a duration no longer fit an integer.
	MaxMoment = 5_680_281_600_000_000_000

	// DefaultKeys is the built-in budget of keys of a namespace: two for each of two million
	// tasks, and as many again for all else.
	DefaultKeys = 5_000_000
	// DefaultBytes is the built-in budget of bytes: half of what etcd's usual quota of 8 GiB
	// holds before the cluster is closed to new tasks.
	DefaultBytes = 3 << 30
	// DefaultPending is the built-in budget of waiting tasks: three quarters of what may wait
	// in a cluster, so that one namespace leaves room for others.
	DefaultPending = 1_500_000
	// DefaultRequests is the built-in budget of requests a second of a namespace's tasks on a
	// node: five tasks that ask as often as one socket allows.
	DefaultRequests = 500
	// DefaultWatches is the built-in budget of open watches of a namespace's tasks on a node:
	// each is a watch of etcd.
	DefaultWatches = 256
	// MaxRate bounds requests a second and watches on a node, which etcd could not serve.
	MaxRate = 1_000_000
	// MaxBudget bounds each number of a budget: a double, and so JSON in every language, is
	// exact up to it.
	MaxBudget = 1 << 53

	// maxProblems is how many problems of one message an error lists.
	maxProblems = 32
)
