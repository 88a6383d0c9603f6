package types

import "time"

// The limits of everything stored, in one table, each with its reason. Writers refuse values above
// them before any write; readers treat a stored value above them as absent (see Decode).
const (
	// MaxName is the longest name or id, in bytes: a DNS label, so that names of tasks and nodes
	// can become host names.
	MaxName = 63
	// MaxText bounds a short text: a version, an address, a label, the id of a device.
	// Longer ones break tables.
	MaxText = 255
	// MaxDomain bounds a domain or the last part of a name such as acme.com/fpga.
	MaxDomain = MaxName
	// MaxReason is the longest reason, in bytes: a screen of text. Reports, statuses, stops and
	// bindings copy a reason, so it must fit a transaction with others.
	MaxReason = 1 << 10
	// MaxPath is the longest path, in bytes: PATH_MAX of Linux.
	MaxPath = 4 << 10
	// MaxImage is the longest image reference, in bytes: 255 for the repository, 128 for the tag,
	// 71 for the digest, and the rest for a registry.
	MaxImage = 512
	// MaxWords bounds a command in bytes, and the environment as well: MAX_ARG_STRLEN of Linux. An
	// execve of both must stay well below that limit.
	MaxWords = 128 << 10
	// MaxSpecBytes bounds an encoded Spec, and MaxTaskBytes a Task. One of each, with the rest of a
	// launch, fits the 1.5 MiB that etcd accepts at once.
	MaxSpecBytes = 512 << 10
	MaxTaskBytes = 256 << 10
	// MaxMessageBytes bounds every other value. Two of them, such as a report and the status made
	// of it, fit one transaction.
	MaxMessageBytes = 1 << 20

	// MaxRequests bounds the resources of one vector: each may take a compare of the 128 that
	// etcd's defaults allow a transaction.
	MaxRequests = 100
	// MaxProvides bounds the resources that one task provides: each adds a key to the release.
	MaxProvides = 100
	// MaxAlternatives bounds the alternatives of one task: each one is a search.
	MaxAlternatives = 16
	// MaxBundles bounds one reservation: each bundle is a part of one transaction.
	MaxBundles = 4096
	// MaxDevices bounds the devices of one node, and of one holding, ports included.
	MaxDevices = 1 << 16
	// MaxCapacities bounds the physical resources of a node, permits included.
	MaxCapacities = 1024
	// MaxLabels bounds the labels of one node, job or task: each selector compares them.
	MaxLabels = 256
	// MaxLabelDomain bounds the domain before the slash in the key of a label: names of DNS are no
	// longer.
	MaxLabelDomain = 253
	// MaxHeld bounds the resources in use on one node: every bind and release there rewrites them
	// all. The last bind may exceed it by its own requests, and still fits MaxMessageBytes.
	MaxHeld = 4096
	// MaxSelected bounds the nodes that one selector names: the largest cluster has 10,000
	// machines.
	MaxSelected = 10_000
	// MaxHost bounds the host of a node in bytes: names of DNS are no longer.
	MaxHost = 253
	// MaxPeers bounds the tasks of a job that know all peers: each of their nodes reads all of them.
	MaxPeers = 1024
	// MaxQuotas bounds the quotas of one namespace: each adds a holding to each task.
	MaxQuotas = 100
	// MaxPolicies bounds the policies of one job, and MaxPolicyBytes the parameters of one: each
	// decision about the job reads them.
	MaxPolicies    = 64
	MaxPolicyBytes = 64 << 10
	// MaxJobTasks bounds the tasks of one job: as many as may wait in a cluster.
	MaxJobTasks = 10_000_000
	// MaxSubjects bounds the subjects of one right, MaxGroups the groups of one credential, and
	// MaxScope the namespaces of either: each request compares them.
	MaxSubjects = 1000
	MaxGroups   = 100
	MaxScope    = 1000
	// MaxSecretEntries bounds the values of one secret, MaxSecretValue the bytes of one and
	// MaxSecretBytes those of all: keys and certificates, not data. MaxSecretUses bounds the secrets of
	// one task: together they fit the answer to its node.
	MaxSecretEntries = 64
	MaxSecretValue   = 64 << 10
	MaxSecretBytes   = 256 << 10
	MaxSecretUses    = 16
	// MaxMounts bounds the mounts of one container.
	MaxMounts = 100
	// MaxPorts bounds the ports of one task.
	MaxPorts = 100
	// MaxChecks bounds the checks of one task: each one probes repeatedly.
	MaxChecks = 8
	// MaxCheckWords bounds the command of one check, in bytes: each probe sends it.
	MaxCheckWords = 16 << 10
	// MaxCheckCount bounds consecutive failures and successes.
	MaxCheckCount = 1000
	// MinCheckEvery is the shortest time between two probes: a probe in a container costs a tenth
	// of a second of a core.
	MinCheckEvery = time.Second
	// MaxModels bounds the models of one device request. MaxModel is the longest model, in bytes.
	MaxModels = 16
	MaxModel  = 100
	// MaxWorkdirBytes bounds a directory sent to nodes: every node that runs it reads it twice and
	// stores it twice. More is data, which belongs on a mount. MaxWorkdirEntries bounds its files,
	// directories and links: a node unpacks some 10,000 a second.
	MaxWorkdirBytes   = 4 << 30
	MaxWorkdirEntries = 100_000
	// MaxPids is the largest number of processes and threads of Linux.
	MaxPids = 1 << 22

	// MaxQuantity is the largest bounded amount: 8 PiB, or 9,007,199,254,740 units. Up to it a
	// double, and so JSON in every language, is exact.
	MaxQuantity Quantity = 1 << 53
	// MaxAllocated is the largest amount in use of one resource on one node or pool. It is so far
	// below the largest integer that a sum of two never overflows. A bind that would exceed it does
	// not fit: see Quantity.Minus.
	MaxAllocated Quantity = 1 << 61
	// MaxAnswer bounds the text of an error that a server of the agent sends, in bytes: a request may
	// be larger, and is quoted in it.
	MaxAnswer = 16 << 10
	// MaxPriority bounds the absolute value of priorities and of raises: their sum fits 32 bits.
	MaxPriority = 1_000_000_000
	// MaxCount bounds a number of attempts, restarts or retries.
	MaxCount = 1_000_000_000
	// MaxDuration bounds every duration: added to any time of this century, it is still a valid
	// time.
	MaxDuration = 100 * 365 * 24 * time.Hour
	// MaxGrace bounds the time between a stop signal and the kill, because a drain waits for it.
	MaxGrace = 7 * 24 * time.Hour
	// MaxIndex bounds an index of raft: no log gets that long, and an eighth more does not
	// overflow.
	MaxIndex = 1 << 60
	// MaxMoment bounds a time, in Unix nanoseconds: the year 2150, after which nanoseconds and a
	// duration no longer fit an integer.
	MaxMoment = 5_680_281_600_000_000_000

	// DefaultKeys is the built-in budget of keys of a namespace: two for each of two million tasks,
	// and a million for everything else.
	DefaultKeys = 5_000_000
	// DefaultBytes is the built-in budget of bytes: half of the data at which etcd's usual quota of
	// 8 GiB closes the cluster to new tasks.
	DefaultBytes = 3 << 30
	// DefaultPending is the built-in budget of waiting tasks: three quarters of those that may wait
	// in a cluster, so that one namespace leaves some to others.
	DefaultPending = 1_500_000
	// DefaultRequests is the built-in budget of requests a second by a namespace's tasks on a node:
	// five tasks at the rate that one socket allows.
	DefaultRequests = 500
	// DefaultWatches is the built-in budget of open watches of a namespace's tasks on a node: each
	// one is a watch of etcd.
	DefaultWatches = 256
	// MaxRate bounds requests a second and watches on a node: etcd could not serve more.
	MaxRate = 1_000_000
	// MaxBudget bounds each number of a budget: up to it a double, and so JSON in every language,
	// is exact.
	MaxBudget = 1 << 53

	// MaxProblems is the number of problems of one message, or of one file, that an error lists: a
	// person reads no more at once.
	MaxProblems = 32
)
