package convert_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/convert"
)

// TestShapes: how a job divides into tasks, with srun and without.
func TestShapes(t *testing.T) {
	const srun, once = "srun ./a", "./a"
	for _, c := range []struct{ options, command, want string }{
		{"", once, "template:\n  requests: {cpu: 1}\n"},
		{"", srun, "template:\n  requests: {cpu: 1}\n"},
		{"-n 8", srun, "count: 8\ngang: {}\ntemplate:\n  requests: {cpu: 1}\n"},
		{"-n 8 -c 2", once, "template:\n  requests: {cpu: 16}\n"},
		{"-N 2 -n 8", srun, "count: 8\ngang: {perNode: 4}\n"},
		{"-N 2 -n 8", once, "count: 2\ngang: {perNode: 1}\ntemplate:\n  requests: {cpu: 4}\n"},
		{"-N 2 -n 7", srun, "count: 7\ngang: {perNode: 4}\n"},
		{"-N 4 -n 2", srun, "count: 4\ngang: {perNode: 1}\n"},
		{"-N 2 --ntasks-per-node=4 --mem=8G", srun, "count: 8\ngang: {perNode: 4}\ntemplate:\n  requests: {cpu: 1, memory: 2Gi}\n"},
		{"-N 2 --ntasks-per-node=4 --mem=8G", once, "count: 2\ngang: {perNode: 1}\ntemplate:\n  requests: {cpu: 4, memory: 8Gi}\n"},
		{"-N 2 --tasks-per-node=8 --gpus-per-node=8", srun, "requests: {cpu: 1, gpu: 1}\n"},
		{"-N 2 --ntasks-per-node=8 --gpus-per-node=8", once, "requests: {cpu: 8, gpu: 8}\n"},
		{"-n 4 --gpus=2", srun, "requests: {cpu: 1, gpu: 500m}\n"},
		{"-n 4 --gpus=8", srun, "requests: {cpu: 1, gpu: 2}\n"},
		{"-n 3 --gpus=8", srun, "requests: {cpu: 1, gpu: 2}\n"},
		{"-n 3 --gpus=8", once, "requests: {cpu: 3, gpu: 8}\n"},
		{"--ntasks=2 --gpus-per-task=4", srun, "requests: {cpu: 1, gpu: 4}\n"},
		{"-a 0-3 -N 2", srun, "count: 2\n"},
	} {
		out, notes := result(t, "f", "#!/bin/sh\n#SBATCH -t 5 "+c.options+"\n"+c.command+"\n")
		if !strings.Contains(out, c.want) {
			t.Errorf("%s, %s: %q is missing in\n%s%s", c.options, c.command, c.want, out, notes)
		}
		if gang := strings.Contains(out, "gang:"); gang && c.command == once && !strings.Contains(notes, "0: the script has no srun: it runs in each of the ") {
			t.Errorf("%s: the notes do not say where it runs: %s", c.options, notes)
		}
		if uneven := strings.Contains(c.options, "-n 3 ") && c.command == srun; uneven != strings.Contains(notes, "8 GPUs do not divide by 3 tasks") {
			t.Errorf("%s: %s", c.options, notes)
		}
	}
}

// TestMeeting: tasks of a gang meet at a port of their own, or at the one that the script gives.
func TestMeeting(t *testing.T) {
	for command, want := range map[string]string{
		"srun a --master_port=29500":           "ports: [{name: peer, number: 29500}]\n",
		"srun a --master-port 29500":           "ports: [{name: peer, number: 29500}]\n",
		"srun a --rdzv=$MASTER_ADDR:29500":     "ports: [{name: peer, number: 29500}]\n",
		"srun a \"${MASTER_ADDR}\":29500":      "ports: [{name: peer, number: 29500}]\n",
		"export MASTER_PORT=29500\nsrun a":     "ports: [{name: peer, number: 29500}]\n",
		"export MASTER_PORT=$RANDOM\nsrun a":   "    # export MASTER_PORT=$RANDOM\n",
		"MASTER_ADDR=$(hostname)\nsrun a":      "    # MASTER_ADDR=$(hostname)\n",
		"srun a --rdzv=$MASTER_ADDR:99999":     "exec a",
		"srun a --port=5000":                   "exec a",
		"export MASTER_PORT=\\\n  5\nsrun ./a": "    # export MASTER_PORT=\\\n    #   5\n",
	} {
		out, notes := result(t, "f", "#!/bin/sh\n#SBATCH -N 2\n"+command+"\n")
		if !strings.Contains(out, want) || strings.Contains(out, "ports:") != strings.Contains(want, "ports:") {
			t.Errorf("%s: %q is missing in\n%s%s", command, want, out, notes)
		}
	}
	// One port is not enough for two tasks of a node, and one task meets no other.
	out, notes := result(t, "f", "#!/bin/sh\n#SBATCH -N 2 --ntasks-per-node=2\nsrun a --master_port=29500\n")
	if strings.Contains(out, "ports") || !strings.Contains(notes, "0: port 29500: several tasks are on a node") {
		t.Errorf("%s%s", out, notes)
	}
	if out, notes := result(t, "f", "#!/bin/sh\n#SBATCH -n 1\nexport MASTER_PORT=29500\nsrun a\n"); strings.Contains(out, "ports") || strings.Contains(notes, "MASTER") {
		t.Errorf("%s%s", out, notes)
	}
}

// TestFormats: a file is what it looks like, or what is said.
func TestFormats(t *testing.T) {
	for text, sbatch := range map[string]bool{
		"#!/bin/sh\n./a\n": true, "#SBATCH -t 5\n./a\n": true, "# a script\n#SBATCH -t 5\n./a\n": true,
		"#!/bin/sh\r\n#SBATCH -t 5\r\n./a\r\n": true, "services: {a: {image: b}}\n": false, "# SBATCH\nservices: {a: {image: b}}\n": false,
	} {
		out, notes := result(t, "x/it.txt", text)
		if got := strings.Contains(out, "name: it\n"); got != sbatch {
			t.Errorf("%q\n%s%s", text, out, notes)
		}
	}
	in := input("plain", "./a\n", nil)
	in.Format, in.Image = convert.Sbatch, "team/a:1"
	out, notes, err := convert.File(in)
	if err != nil || len(notes) > 0 || !strings.Contains(string(out), "image: team/a:1\n") {
		t.Errorf("%s, %v, %v", out, notes, err)
	}
}

// TestLooks: what a file is that File converts.
func TestLooks(t *testing.T) {
	for text, want := range map[string]string{
		"#!/bin/sh\n./a\n": "batch script of Slurm", "# a\n#SBATCH -t 5\n./a\n": "batch script of Slurm",
		"services:\n  a: {image: b}\n": "compose file", "name: x\nservices: {}\n": "compose file",
		"apiVersion: escher.dev/v1\nkind: Task\n": "", "": "", "run: |\n  #SBATCH\n  services:\n": "",
	} {
		if got := convert.Looks([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
