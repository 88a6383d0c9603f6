package taskset

// Kinds of policies whose resources policies of other families use. A resource has the kind of its
// policy in its name, so a name is enough, and no family imports another one.
const (
	KindAfter          = "after"
	kindApart          = "apart"
	kindBalance        = "balance"
	KindBarrier        = "barrier"
	kindColocate       = "colocate"
	KindElasticBalance = "elastic-balance"
	KindFairQueue      = "fair-queue"
	kindFairShare      = "fair-share"
	kindInterleave     = "interleave"
	kindObjective      = "objective"
	kindPack           = "pack"
	kindQueue          = "queue"
	kindQuiet          = "quiet"
	kindSpread         = "spread"
)

// JobGate is the prefix of the gates of an After for other jobs.
const JobGate = "job"

// ColocateWith is the suffix of the resource by which tasks follow others.
const ColocateWith = "with"
