package why

// Cause is the kind of a reason. Programs decide by it. The texts are part of the JSON form, and
// stay.
type Cause string

// Why a task or reservation waits.
const (
	NoNodes            Cause = "no-nodes"            // no node is registered
	NodesTooSmall      Cause = "nodes-too-small"     // not even an empty node has enough
	NodesIneligible    Cause = "nodes-ineligible"    // the nodes that would do are lost or cordoned
	NoSuchPlace        Cause = "no-such-place"       // no node is in the required place
	NotWhole           Cause = "not-whole"           // several devices, and a part of one
	NoSuchDevices      Cause = "no-such-devices"     // the devices that match are too few
	DevicesUnknown     Cause = "devices-unknown"     // a node does not report its devices
	NotPermitted       Cause = "not-permitted"       // no node permits the rights of the task
	InUse              Cause = "in-use"              // others hold the capacity of nodes
	PoolInUse          Cause = "pool-in-use"         // others hold a cluster-wide resource
	Closed             Cause = "closed"              // an ephemeral resource has capacity 0
	CapacityLow        Cause = "capacity-low"        // an ephemeral resource has less than the task requests
	ResourceMissing    Cause = "resource-missing"    // an ephemeral resource does not exist
	ResourceElsewhere  Cause = "resource-elsewhere"  // an ephemeral resource exists only on other nodes
	ProviderAwaited    Cause = "provider-awaited"    // a task will provide the resource
	ProviderEnded      Cause = "provider-ended"      // a task provided the resource, and has ended
	Circle             Cause = "circle"              // tasks wait for one another
	ReservationMissing Cause = "reservation-missing" // the reservation does not exist
	ReservationWaits   Cause = "reservation-waits"   // the reservation is not granted yet
	ReservationEnds    Cause = "reservation-ends"    // the reservation is being released
	ReservationLacks   Cause = "reservation-lacks"   // the reservation does not hold what the task requests
	AllowedLater       Cause = "allowed-later"       // an alternative is not allowed yet
	AboutToBind        Cause = "about-to-bind"       // it fits
	SchedulerMissing   Cause = "scheduler-missing"   // the scheduler that the task names does not run
	Unreadable         Cause = "unreadable"          // a stored value cannot be read
	Incomplete         Cause = "incomplete"          // the job is not submitted in full
	Retrying           Cause = "retrying"            // the last attempt failed
	Collecting         Cause = "collecting"          // it collects capacity that becomes free
)

// What else explains a state.
const (
	Stopped        Cause = "stopped" // while it waited
	DeadlinePassed Cause = "deadline-passed"
	Cancelled      Cause = "cancelled"
	Succeeded      Cause = "succeeded"
	Failed         Cause = "failed"
	OutOfMemory    Cause = "out-of-memory"
	Starting       Cause = "starting"
	NotStarting    Cause = "not-starting" // the node fails to start it, and tries again
	Running        Cause = "running"
	Restarting     Cause = "restarting"
	Unhealthy      Cause = "unhealthy"
	Stopping       Cause = "stopping"
	Evicting       Cause = "evicting"
	NodeLost       Cause = "node-lost"
	NodeReady      Cause = "node-ready"
	Granting       Cause = "granting"
	Granted        Cause = "granted"
	HandedOver     Cause = "handed-over"
	Releasing      Cause = "releasing"
)

// Why a policy lets a task wait.
const (
	Order    Cause = "order"     // others come first
	Budget   Cause = "budget"    // others hold what it may use
	Place    Cause = "place"     // the nodes that the policy allows are full
	Awaits   Cause = "awaits"    // others must begin or end first
	Room     Cause = "room"      // others make room
	NoKeeper Cause = "no-keeper" // no program runs the policy
	Wrong    Cause = "wrong"     // the parameters of the policy are wrong
)
