// Package howto says how to do things with the command line of escher. It is the only place that
// names the commands for actions that the libraries name.
package howto

import (
	"strings"

	"github.com/escher-sched/escher/types/action"
)

// phrases say how to do each action. Text to type is in braces. Before a bar is the command to
// which a flag belongs, which is not printed.
var phrases = [...]string{
	action.ListNodes:        "{escher nodes} lists what there is",
	action.AwaitLost:        "{escher nodes} says when",
	action.ListNodesFully:   "{escher nodes -o wide} lists them",
	action.ListTasks:        "{escher ps -a} lists what there is",
	action.ListRunning:      "{escher ps} shows what runs",
	action.ListTasksOf:      "{escher ps --job %s}",
	action.ListJobs:         "{escher jobs} lists what there is",
	action.ListReservations: "{escher reservations} lists what there is",
	action.ListPolicies:     "{escher policies ls} lists what there is",
	action.ListNamespaces:   "{escher namespace ls} lists those with settings",
	action.ListResources:    "{escher resources}",
	action.ListDevices:      "{escher gpus} shows them",
	action.ListFiles:        "{escher exec TASK -- ls} shows them",
	action.Describe:         "{escher describe %s}",
	action.Explain:          "{escher why %s}",
	action.ExplainFully:     "{escher why |-o wide} shows all of it",
	action.ExplainOne:       "{escher why TASK} says it of one",
	action.DescribePolicies: "{escher policies describe %s}",
	action.ShowOutput:       "{escher logs %s}",
	action.ShowEvents:       "{escher events %s}",
	action.ShowState:        "{escher state}, with the same flags, says more",
	action.AwaitRunning:     "wait for it with {escher wait --until running %s}",
	action.RunInside:        "use {escher exec}",
	action.SubmitFile:       "use {escher submit}",
	action.ApplyFile:        "use {escher apply}",
	action.PlanAgain:        "look at {escher plan} again",
	action.ReplaceLive:      "give {escher apply |--replace}",
	action.Stop:             "{escher stop %s}",
	action.StopSome:         "{escher stop} what is not needed",
	action.DeleteEnded:      "delete some of it with {escher rm}",
	action.DeleteUnneeded:   "delete what it no longer needs, with {escher rm} or {escher set-resource NAME 0}",
	action.SetOnNode:        "{escher set-resource %s %s --node %s}",
	action.SetOnEveryNode:   "{escher set-resource %s %s --all}",
	action.SetInCluster:     "{escher set-resource %s %s --cluster}",
	action.CreateResource:   "{escher set-resource --help}",
	action.ReserveBundle:    "{escher reserve %s --bundle %s=%s}",
	action.Unreserve:        "{escher unreserve %s}",
	action.RemovePolicy:     "{escher policies rm %s}",
	action.SetNamespace:     "change its settings with {escher namespace set %s}",
	action.RaiseBudget:      "{escher namespace set %s --%s}",
	action.AllowPolicy:      "{escher namespace set %s --policy %s=allowed}",
	action.Drain:            "{escher node drain}",
	action.Uncordon:         "{escher node uncordon %s}",
	action.DeclareDead:      "{escher node rm --dead %s}",
	action.ListUnreadable:   "{escher audit} lists those that cannot be read",
	action.RepairKey:        "repair it with {escher audit --repair %s}",
	action.CheckMachine:     "sudo {escher node doctor}",
	action.LoadImage:        "{escher image load}",
	action.SetSecret:        "set it with {escher secret set %s}",
	action.SetLogin:         "give its password with {escher secret set --registry %s --username USER}",
	action.StartNode:        "{escher dev} on this machine, or {escher agent} on each of several",
	action.RestartAgent:     "{escher agent}, or the {escher dev} that it is part of",
	action.StartServer:      "{escher server --endpoints …}, on any machine that reaches etcd",
	action.AskServer:        "go by the API of a server with --server, or after {escher login}",
	action.CheckScheduler:   "look at {escher dev} or {escher server}, and their logs",
	action.CheckDev:         "look whether {escher dev} runs",

	action.StartAgentWith:  "start its agent (or {escher dev}) with",
	action.AllowMount:      "{escher agent |--allow-mount %s}",
	action.AllowPrivileged: "{escher agent |--allow-privileged}",
	action.AllowCapability: "{escher agent |--allow-cap %s}",
	action.MaxPids:         "{escher agent |--max-pids %s}",
	action.LabelNode:       "label: {escher node label NODE %s=%s}",
	action.AgentName:       "{escher agent |--node}",
	action.AgentListen:     "{escher agent |--listen}",
	action.AgentAdvertise:  "{escher agent |--advertise}",
	action.AgentInsecure:   "{escher agent |--insecure-listen}",
	action.AgentCert:       "{escher agent |--tls-cert}",
	action.AgentKey:        "{escher agent |--tls-key}",
	action.AgentPorts:      "{escher agent |--ports}",
	action.AgentStateDir:   "{escher agent |--state-dir}",
	action.AgentTTL:        "{escher agent |--ttl}",
	action.AgentContainerd: "{escher agent |--containerd}",
	action.AgentNoGPUs:     "{escher agent |--gpus none}",
	action.AgentServer:     "{escher agent |--server}",
	action.EtcdEndpoints:   "{escher agent |--endpoints}",
	action.EtcdCert:        "{escher agent |--cert}",
	action.EtcdKey:         "{escher agent |--key}",
	action.EtcdCA:          "{escher agent |--cacert}",
	action.EtcdServerName:  "{escher agent |--servername}",
	action.ServerEtcdQuota: "{escher server |--etcd-quota}",
	action.TaskCount:       "count; {escher run --count}",
	action.TaskPerNode:     "perNode; {escher run --per-node}",
	action.TaskMaxRun:      "{escher run |--max-run}",
	action.TaskRequest:     "{escher run |--request %s=%s}",
	action.TaskPort:        "{escher run |--port NAME}",
}

// Say returns how to do an action with the command line.
func Say(a action.Action) string {
	in := ""
	if a.Namespace != "" {
		in = " --namespace " + a.Namespace
	}
	var format strings.Builder
	for part := range strings.SplitSeq(phrases[a.Verb], "}") {
		words, typed, isTyped := strings.Cut(part, "{")
		_, flag, isFlag := strings.Cut(typed, "|")
		switch {
		case isFlag:
			format.WriteString(words + flag)
		case isTyped:
			format.WriteString(words + typed + in)
		default:
			format.WriteString(words)
		}
	}
	return a.Fill(format.String())
}

// Commands returns the command lines of an action, each with the command that its flags belong to.
func Commands(a action.Action) []string {
	var all []string
	for part := range strings.SplitSeq(phrases[a.Verb], "}") {
		if _, typed, isTyped := strings.Cut(part, "{"); isTyped {
			all = append(all, strings.Replace(typed, "|", "", 1))
		}
	}
	return all
}
