package queue

import (
	"strconv"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TaskText returns the text that all tasks of a shape have, and no others. Tasks with alternatives
// have one shape per priority: the oldest one has the most allowed alternatives, and must be the
// head.
func TaskText(ns string, t *cluster.TaskValue) string { return string(AppendTask(nil, ns, t)) }

// AppendTask appends TaskText to b.
func AppendTask(b []byte, ns string, t *cluster.TaskValue) []byte {
	b = append(b, ns...)
	b = appendRequests(b, t.Requests)
	b = appendDevices(b, t.Devices)
	b = appendMaxRun(b, t.MaxRun)
	for _, a := range t.Alternatives {
		b = append(append(b, '|'), a.After.String()...)
		b = appendRequests(b, a.Requests)
	}
	if len(t.Alternatives) > 0 {
		b = strconv.AppendInt(append(b, '^'), int64(t.Order()), 10)
	}
	return b
}

// ReservationText returns the text that all reservations of a shape have, and no others.
func ReservationText(ns string, r *types.Reservation) string {
	return string(AppendReservation(nil, ns, r))
}

// AppendReservation appends ReservationText to b.
func AppendReservation(b []byte, ns string, r *types.Reservation) []byte {
	b = append(append(b, '#'), ns...)
	for _, x := range r.Bundles {
		b = append(append(b, '|'), x.Node...)
		b = appendRequests(b, x.Requests)
		b = appendDevices(b, x.Devices)
	}
	return appendMaxRun(b, r.MaxRun)
}

// appendMaxRun writes a length: only what ends in time may backfill.
func appendMaxRun(b []byte, maxRun time.Duration) []byte {
	if maxRun == 0 {
		return b
	}
	return append(append(b, '<'), maxRun.String()...)
}

// appendDevices writes lengths before texts, because users choose the texts.
func appendDevices(b []byte, requests []types.DeviceRequest) []byte {
	for i := range requests {
		r := &requests[i]
		b = append(append(b, '!'), r.Resource...)
		for _, m := range r.Models {
			b = strconv.AppendInt(append(b, ','), int64(len(m)), 10)
			b = append(append(b, ':'), m...)
		}
		b = strconv.AppendInt(append(b, '>'), r.MinMemory, 36)
		b = append(append(b, '~'), r.Topology...)
	}
	return b
}

func appendRequests(b []byte, r types.Requests) []byte {
	for i := range r {
		b = append(append(b, ' '), r[i].Name...)
		b = strconv.AppendInt(append(b, '='), int64(r[i].Amount), 36)
	}
	return b
}
