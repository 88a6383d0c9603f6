package explain

import "github.com/escher-sched/escher/types"

func permitSituations() []situation {
	asks := q{"cpu": 100, string(types.PermitCapability("NET_ADMIN")): 1000}
	return []situation{
		{name: "rights that no node permits", never: true, build: func(w *small) {
			w.pair()
			w.launch("t", asks)
		}},
		{name: "rights that the only node there does not permit", never: true, build: func(w *small) {
			w.nodes(q{"cpu": 2000, string(types.PermitCapability("NET_ADMIN")): types.Inf}, "n1")
			w.nodes(q{"cpu": 2000}, "n2")
			w.launch("t", q{"cpu": 100, string(types.PermitCapability("NET_ADMIN")): 1000, "node/n2": 1000})
		}},
		{name: "rights that a full node permits", build: func(w *small) {
			w.nodes(q{"cpu": 2000, string(types.PermitCapability("NET_ADMIN")): types.Inf}, "n1")
			w.nodes(q{"cpu": 2000}, "n2")
			w.launch("x", q{"cpu": 2000, "node/n1": 1000})
			w.settle()
			w.launch("t", asks)
		}},
	}
}
