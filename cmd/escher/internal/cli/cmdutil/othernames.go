package cmdutil

import (
	"slices"

	"github.com/spf13/cobra"
)

// OtherFlag says what replaces flags of docker, kubectl, Slurm, Nomad or Ray.
type OtherFlag struct {
	// Names are the flags; a single letter is a short one.
	Names []string
	// Needs is the flag that a command must have for the hint.
	Needs string
	// Say is what to do.
	Say string
}

// OtherFlags lists flags of other systems.
func OtherFlags() []OtherFlag {
	return []OtherFlag{
		{[]string{"gpus", "gpus-per-node", "gpus-per-task", "num-gpus", "gres"}, "gpu", "write --gpu 2 for each task"},
		{[]string{"replicas", "ntasks", "num-tasks"}, "count", "write --count 4"},
		{[]string{"nodes", "N"}, "gang", "write --gang 2 --apart: two tasks together, on a node each"},
		{[]string{"mem", "m", "mem-per-node", "memory-limit", "memory-mb"}, "memory", "write --memory 4Gi"},
		{[]string{"cpus", "cpus-per-task", "num-cpus", "cpu-shares"}, "cpu", "write --cpu 2"},
		{[]string{"c"}, "cpu", "write --cpu 2; and -- before a command with flags: escher run IMAGE -- sh -c …"},
		{[]string{"publish", "expose", "P"}, "port", "write --port http, a port of the node; escher port-forward reaches it"},
		{[]string{"network", "net", "hostname"}, "port", "leave it out: a task has the network of its node, and --port its ports"},
		{[]string{"rm"}, "detach", "leave it out: ended tasks are deleted after a while, and at once by escher rm"},
		{[]string{"time", "timeout", "ttl"}, "max-run", "write --max-run 2h"},
		{[]string{"job-name", "J"}, "name", "write --name train"},
		{[]string{"volume", "volumes"}, "mount", "write --mount PATH"},
		{[]string{"array-task-limit"}, "array", "write --array 0-99%8"},
		{[]string{"partition", "account", "qos"}, "queue", "write --queue NAME for a queue, or --share POLICY/TEAM for a fair share: escher policies ls"},
		{[]string{"nodelist", "w", "exclude", "constraint", "C", "node-selector"}, "request", "write --request node/NAME=1, or --request zone/NAME=1 for a label of nodes"},
		{[]string{"dependency"}, "after", "write --after JOB"},
		{[]string{"exclusive"}, "cpu", "write --cpu with all that a node has: escher nodes"},
		{[]string{"stop-timeout", "grace-period", "t"}, "grace", "write --grace 30s"},
		{[]string{"pull"}, "entrypoint", "leave it out: a node pulls what it lacks, and escher pull does so before"},
		{[]string{"labels"}, "label", "write --label team=vision"},
		{[]string{"quiet", "q", "no-headers"}, "limit", "write -o name"},
		{[]string{"filter"}, "selector", "write -l team=vision for labels; -o json and jq for the rest"},
		{[]string{"format"}, "limit", "write -o jsonpath=TEMPLATE"},
		{[]string{"command", "cmd"}, "entrypoint", "write the command after --: escher run IMAGE -- COMMAND"},
	}
}

// otherFlag returns what to do in place of a flag of another system; empty means unknown.
func otherFlag(cmd *cobra.Command, name string) string {
	for _, o := range OtherFlags() {
		if slices.Contains(o.Names, name) && cmd.Flags().Lookup(o.Needs) != nil {
			return o.Say
		}
	}
	return ""
}

// OtherCommands maps commands of other systems to those of Escher.
func OtherCommands() map[string]string {
	return map[string]string{
		"alloc":      "write escher ps",
		"build":      "use docker build, then docker save and escher image load",
		"compose":    "write escher convert FILE, then escher apply",
		"cordon":     "write escher node cordon",
		"create":     "write escher apply -f FILE",
		"down":       "write escher delete -f FILE",
		"drain":      "write escher node drain",
		"images":     "write escher image ls",
		"inspect":    "write escher describe",
		"job list":   "write escher job ls",
		"job run":    "write escher apply -f FILE",
		"job status": "write escher job describe",
		"list":       "write escher ps",
		"rmi":        "no command removes an image: escher image ls lists them",
		"rollout":    "write escher apply --replace -f FILE",
		"sacct":      "write escher ps -a",
		"salloc":     "write escher reserve",
		"sbatch":     "write escher convert SCRIPT, then escher apply",
		"scale":      "write escher apply, with another count in the file",
		"scancel":    "write escher stop",
		"scontrol":   "write escher describe",
		"sinfo":      "write escher nodes",
		"squeue":     "write escher ps",
		"srun":       "write escher run",
		"start":      "write escher run, or escher dev for a cluster",
		"stats":      "write escher top",
		"status":     "write escher ps",
		"task list":  "write escher task ls",
		"uncordon":   "write escher node uncordon",
		"up":         "write escher apply -f FILE",
	}
}
