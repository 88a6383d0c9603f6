package audit

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// NewMessage returns a message for the value of a key; nil if package types has none.
func NewMessage(k controlplane.Key) types.Message {
	switch k.Kind {
	case controlplane.Nodes:
		return new(types.Node)
	case controlplane.Devices:
		return new(types.Devices)
	case controlplane.Alive:
		return new(types.Alive)
	case controlplane.Tokens:
		return new(types.Token)
	case controlplane.Cordons:
		return new(types.Cordon)
	case controlplane.Namespaces:
		return new(types.Namespace)
	case controlplane.Admissions:
		return new(types.Admission)
	case controlplane.Resources:
		return new(types.Resource)
	case controlplane.Sessions:
		return new(types.Session)
	case controlplane.Specs:
		return new(types.Spec)
	case controlplane.Tasks:
		return new(types.Task)
	case controlplane.Jobs:
		return new(types.Job)
	case controlplane.Reservations:
		return new(types.Reservation)
	case controlplane.Policies:
		return new(types.Policies)
	case controlplane.Grants:
		return new(types.Grant)
	case controlplane.Allocated:
		return new(types.Allocated)
	case controlplane.Bindings:
		return new(types.Binding)
	case controlplane.Reports:
		return new(types.Report)
	case controlplane.Provided:
		return new(types.Provided)
	case controlplane.Statuses:
		return new(types.Status)
	case controlplane.Histories:
		return new(types.History)
	case controlplane.Rights:
		return new(types.Right)
	case controlplane.Credentials:
		return new(types.Credential)
	case controlplane.Secrets:
		return new(types.Secret)
	case controlplane.Schedulers, controlplane.Leaders:
		return new(types.Leader)
	}
	switch k {
	case controlplane.Key{Kind: controlplane.System, ID: "admission"}:
		return new(types.Admission)
	case controlplane.Key{Kind: controlplane.System, ID: "cluster"}:
		return new(types.Cluster)
	case controlplane.Key{Kind: controlplane.System, ID: "epoch"}:
		return new(types.Epoch)
	case controlplane.Key{Kind: controlplane.System, ID: "progress"}:
		return new(types.Progress)
	}
	return nil
}
