package explain

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
)

// reservedSituations are situations of tasks that draw on devices of a reservation.
func reservedSituations() []situation {
	held := func(w *small, devices ...types.Device) {
		w.gpusOn("n1", "A100", "A100", "A100")
		w.reserve("train", types.Reservation{}, q{"gpu": 1000})
		w.put(controlplane.DevicesKey("n1"), &types.Devices{Devices: append(devices, schedulertest.GPU(1, "A100"), schedulertest.GPU(2, "A100"))})
	}
	return []situation{
		{name: "a gpu of its reservation is unhealthy", build: func(w *small) {
			held(w, schedulertest.GPU(0, "A100!"))
			w.launch("t", q{"gpu@train": 1000})
		}},
		{name: "a gpu of its reservation is gone", build: func(w *small) {
			held(w)
			w.launch("t", q{"gpu@train": 1000})
		}},
		{name: "a gpu of that model of its reservation is unhealthy", build: func(w *small) {
			held(w, schedulertest.GPU(0, "A100!"))
			w.launch("t", q{"gpu@train": 1000}, of(types.DeviceRequest{Resource: "gpu@train", Models: []string{"A100"}}))
		}},
		{name: "its reservation holds no such gpus", never: true, build: func(w *small) {
			w.gpusOn("n1", "A100", "A100")
			w.reserve("train", types.Reservation{}, q{"gpu": 2000})
			w.launch("t", q{"gpu@train": 1000}, of(types.DeviceRequest{Resource: "gpu@train", Models: []string{"H100"}}))
		}},
	}
}
