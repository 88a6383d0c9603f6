package policy

// policyText describes a policy.
type policyText struct {
	// Does says in a few words what it does.
	Does string
	// Declared means that it can only be declared, and jobs name it by another policy.
	Declared bool
}

// PolicyTexts describe the policies of the library, by name.
func PolicyTexts() map[string]policyText {
	return map[string]policyText{
		"ageing":          {Does: "the longer a task waits the earlier it comes; nobody is evicted for that"},
		"after":           {Does: "tasks begin when others, of the job or of other jobs, have succeeded"},
		"apart":           {Does: "at most so many tasks of the job on a node"},
		"balance":         {Does: "as many tasks of the job on each node"},
		"balanced":        {Does: "the tasks take part in an elastic-balance that is declared"},
		"barrier":         {Does: "tasks begin when so many others are there"},
		"colocate":        {Does: "all tasks on one node, rack or zone; or where another task or job runs"},
		"elastic":         {Does: "at least so many tasks run, and more where there is room that nobody waits for"},
		"elastic-balance": {Does: "as many tasks on each node, however many come"},
		"fair-queue":      {Does: "tasks are let in by the weights of their flows", Declared: true},
		"fair-share":      {Does: "teams and users share the cluster by their weights; what one leaves, others use", Declared: true},
		"flow":            {Does: "the tasks wait in a fair-queue that is declared"},
		"gang":            {Does: "all tasks are placed at once, or none"},
		"holds":           {Does: "each task holds some of a semaphore that is declared"},
		"migrate":         {Does: "tasks move where it is better for them, when room is released"},
		"near":            {Does: "tasks run where their data is; after a while, anywhere"},
		"objective":       {Does: "each task goes to the node where a function is least"},
		"pack":            {Does: "on as few nodes as will do"},
		"packed":          {Does: "the tasks take part in a pack that is declared"},
		"placed":          {Does: "the tasks go where an objective that is declared says"},
		"prefer":          {Does: "places in order of preference, each after a while"},
		"preempt":         {Does: "what is of lower priority makes room for it, if it fits then"},
		"queue":           {Does: "so many tasks run at once, or begin within a time", Declared: true},
		"queued":          {Does: "the tasks wait in a queue that is declared"},
		"semaphore":       {Does: "so much of a name that tasks hold at once", Declared: true},
		"share":           {Does: "the tasks are of a user of a fair-share that is declared"},
		"stay":            {Does: "the tasks are not evicted for others of higher priority"},
		"spread":          {Does: "over nodes, racks or zones, in none many more than in another"},
	}
}
