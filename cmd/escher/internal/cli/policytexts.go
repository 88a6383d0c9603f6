package cli

// policyText says what a policy is for.
type policyText struct {
	// does says in a few words what it does.
	does string
	// declared tells that it can only be declared, for jobs to name it by another one.
	declared bool
}

// policyTexts are about the policies of the library, by name.
func policyTexts() map[string]policyText {
	return map[string]policyText{
		"ageing":          {does: "the longer a task waits the earlier it comes; nobody is evicted for that"},
		"after":           {does: "tasks begin when others, of the job or of other jobs, have succeeded"},
		"apart":           {does: "at most so many tasks of the job on a node"},
		"balance":         {does: "as many tasks of the job on each node"},
		"balanced":        {does: "the tasks take part in an elastic-balance that is declared"},
		"barrier":         {does: "tasks begin when so many others are there"},
		"colocate":        {does: "all tasks on one node, rack or zone; or where another task or job runs"},
		"elastic":         {does: "at least so many tasks run, and more where there is room that nobody waits for"},
		"elastic-balance": {does: "as many tasks on each node, however many come"},
		"fair-queue":      {does: "tasks are let in by the weights of their flows", declared: true},
		"fair-share":      {does: "teams and users share the cluster by their weights; what one leaves, others use", declared: true},
		"flow":            {does: "the tasks wait in a fair-queue that is declared"},
		"gang":            {does: "all tasks are placed at once, or none"},
		"holds":           {does: "each task holds some of a semaphore that is declared"},
		"migrate":         {does: "tasks move where it is better for them, when room is released"},
		"near":            {does: "tasks run where their data is; after a while, anywhere"},
		"objective":       {does: "each task goes to the node where a function is least"},
		"pack":            {does: "on as few nodes as will do"},
		"packed":          {does: "the tasks take part in a pack that is declared"},
		"placed":          {does: "the tasks go where an objective that is declared says"},
		"prefer":          {does: "places in order of preference, each after a while"},
		"preempt":         {does: "what is of lower priority makes room for it, if it fits then"},
		"queue":           {does: "so many tasks run at once, or begin within a time", declared: true},
		"queued":          {does: "the tasks wait in a queue that is declared"},
		"semaphore":       {does: "so much of a name that tasks hold at once", declared: true},
		"share":           {does: "the tasks are of a user of a fair-share that is declared"},
		"stay":            {does: "the tasks are not evicted for others of higher priority"},
		"spread":          {does: "over nodes, racks or zones, in none many more than in another"},
	}
}
