package bench

// liveScenarios are about tasks and schedulers apart from binding speed.
func liveScenarios() []scenario {
	return []scenario{
		{name: "lifecycle", about: "tasks a second from their submission to the removal of what is left of them, sustained",
			full: size{200, 2000, 3}, quick: size{50, 500, 1}, run: runLifecycle},
		{name: "latency", about: "from submitting a task to seeing it bound, at 100 tasks a second; beside one put of etcd",
			full: size{10_000, 6000, 5}, quick: size{500, 500, 3}, run: runLatency},
		{name: "setresource", about: "setting one ephemeral resource, beside one put of etcd; and a thousand in one call",
			full: size{50, 1000, 5}, quick: size{50, 300, 3}, run: runSetResource},
		{name: "labels", about: "from submitting a task that asks for 100 ephemeral resources to seeing it bound; beside one of 1",
			full: size{100, 500, 5}, quick: size{100, 100, 3}, run: runLabels},
		{name: "unrelated", about: "binding a job while 100,000 resources are there that it does not ask for; beside none",
			full: size{1000, 10_000, 5}, quick: size{100, 1000, 3}, run: runUnrelated},
		{name: "restart", about: "from the start of a scheduler to its first binding, where a million tasks are bound",
			full: size{10_000, 1_000_000, 3}, quick: size{500, 20_000, 2}, run: runRestart},
		{name: "takeover", about: "from the end of a scheduler, kill -9, to the next binding, by another one",
			full: size{10_000, 100_000, 5}, quick: size{500, 5000, 2}, run: runTakeover},
		{name: "memory", about: "the most memory that a scheduler has with a million tasks bound, and with as many waiting",
			full: size{10_000, 1_000_000, 1}, quick: size{500, 20_000, 1}, run: runMemory},
	}
}
