package convert_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/convert"
)

// result converts a text, and returns the result and the notes.
func result(t *testing.T, name, text string) (file, notes string) {
	t.Helper()
	out, all, err := convert.File(input(name, text, nil))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return string(out), noted(all)
}

// TestOptions: what each option of sbatch becomes, as a text of the result.
func TestOptions(t *testing.T) {
	checkOptions(t, map[string]string{
		"-J a":                             "name: a\n",
		"-Ja":                              "name: a\n",
		"--job-name='a b'":                 "name: a-b\n",
		"--job_name=a":                     "name: a\n",
		"-N 3":                             "count: 3\ngang: {perNode: 1}\n",
		"-N3":                              "count: 3\n",
		"--nodes=2-5":                      "count: 2\n",
		"-n 4":                             "requests: {cpu: 4}",
		"-n 4 -c 2":                        "requests: {cpu: 8}",
		"-c 16":                            "requests: {cpu: 16}",
		"--gpus=2 --cpus-per-gpu=8":        "requests: {cpu: 16, gpu: 2}",
		"--mem=1G":                         "memory: 1Gi}",
		"--mem-per-cpu=100 -c 2":           "memory: 200Mi}",
		"--mem-per-gpu=10G --gpus=2":       "memory: 20Gi, gpu: 2}",
		"--tmp=1T":                         "disk: 1Ti}",
		"--gres=gpu":                       "gpu: 1}",
		"--gres=gpu:2":                     "gpu: 2}",
		"--gres=gpu:v100:2(S:0-1)":         "gpu: {count: 2, model: v100}}",
		"--gres=gres/gpu:2":                "gpu: 2}",
		"--gpus-per-node=rtx_2080:1":       "gpu: {count: 1, model: rtx 2080}}",
		"-G 4":                             "gpu: 4}",
		"--gpus-per-task=2 -n 2":           "gpu: 4}",
		"-t 5":                             "maxRun: 5m\n",
		"-a 0-9%2":                         "array: {indices: 0-9, atOnce: 2}",
		"-a 4":                             "array: {indices: \"4\"}",
		"--signal=10":                      "2: --signal=10 is dropped",
		"--signal=USR2":                    "warn: USR2@60s",
		"--signal=R:B:TERM@30":             "warn: TERM@30s",
		"--no-requeue":                     "onDisconnect: stop\n",
		"-N 2 --requeue":                   "gang: {perNode: 1, onLoss: restart}",
		"-D sub":                           "workdir: sub # relative to this file\n",
		"-D /srv/x":                        "mounts:\n    - {source: /srv/x, target: /srv/x}\n  dir: /srv/x\n",
		"--export=A=1,B=2":                 "env:\n    A: \"1\"\n    B: \"2\"\n",
		"--export=NONE":                    "workdir: . # relative to this file\n",
		"-w n1":                            "node/n1: 1}",
		"-N 2 -w n1":                       "0: --nodelist=n1 is dropped",
		"--nice":                           "priority: -100\n",
		"--nice=-5":                        "priority: 5\n",
		"--container-image=docker://a/b:1": "image: a/b:1\n",
		"--container-workdir=/w":           "dir: /w\n",
		"--container-mounts=/a,/b:/c:ro":   "- {source: /a, target: /a}\n    - {source: /b, target: /c, readOnly: true}\n",
	})
}

// TestLackedOptions: a note names each option that Escher lacks.
func TestLackedOptions(t *testing.T) {
	checkOptions(t, map[string]string{
		"-d afterok:1":                       "2: --dependency=afterok:1 is dropped",
		"-o a -e b -i c":                     "2: --input=c is dropped",
		"-p gpu":                             "2: --partition=gpu is dropped",
		"-A lab":                             "2: --account=lab is dropped",
		"-q high":                            "2: --qos=high is dropped",
		"--mail-type=ALL":                    "2: --mail-type=ALL is dropped",
		"--exclusive=user":                   "2: --exclusive=user is dropped",
		"-s":                                 "2: --oversubscribe is dropped",
		"-C a100":                            "2: --constraint=a100 is dropped",
		"-x n[1-2]":                          "2: --exclude=n[1-2] is dropped",
		"-L matlab:2":                        "2: --licenses=matlab:2 is dropped",
		"--reservation=r":                    "2: --reservation=r is dropped",
		"-b now+1hour":                       "2: --begin=now+1hour is dropped",
		"--deadline=2026-01-02":              "2: --deadline=2026-01-02 is dropped",
		"-H":                                 "2: --hold is dropped",
		"--priority=5":                       "2: --priority=5 is dropped",
		"-m block":                           "2: --distribution=block is dropped",
		"--ntasks-per-gpu=1":                 "2: --ntasks-per-gpu=1 is dropped",
		"-M other":                           "2: --cluster=other is dropped",
		"--time-min=1":                       "2: --time-min=1 is dropped",
		"-k":                                 "2: --no-kill is dropped",
		"-W":                                 "2: --wait is dropped",
		"--uid=5":                            "2: --uid=5 is dropped",
		"--x11":                              "2: --x11 is dropped",
		"--parsable -Q -v":                   "requests: {cpu: 1}",
		"--account=lab # --partition=hidden": "2: --account=lab is dropped",
	})
}

// checkOptions converts scripts with options. Each has a text in its result or notes.
func checkOptions(t *testing.T, texts map[string]string) {
	t.Helper()
	for options, want := range texts {
		out, notes := result(t, "f", "#!/bin/sh\n#SBATCH "+options+"\n./a\n")
		if !strings.Contains(out+notes, want) {
			t.Errorf("%s: %q is missing in\n%s%s", options, want, out, notes)
		}
		if strings.Contains(notes, "hidden") {
			t.Errorf("a comment counts: %s", notes)
		}
	}
}

// TestSteps: srun is taken away where it is a command, with its options.
func TestSteps(t *testing.T) {
	for line, want := range map[string]string{
		"srun ./a":                                "    exec ./a\n",
		"  srun ./a b":                            "      exec ./a b\n",
		"srun -n 4 -N2 --mpi=pmix ./a -n 5":       "    exec ./a -n 5\n",
		"srun --ntasks 4 --label ./a":             "    exec ./a\n",
		"srun -l -u ./a":                          "    exec ./a\n",
		"time srun ./a":                           "    time ./a\n",
		"cd x && srun ./a":                        "    cd x && ./a\n",
		"srun ./a | tee b":                        "    ./a | tee b\n",
		"if true; then srun ./a; fi":              "    if true; then ./a; fi\n",
		"srun \\\n  --exact \\\n  ./a \\\n  b":    "    exec ./a \\\n      b\n",
		"srun --export=ALL,A=\"b c\" ./a":         "    exec ./a\n",
		"srun bash -c 'echo $SLURM_PROCID; true'": "    bash -c 'echo $SLURM_PROCID; true'\n",
		"echo srun ./a":                           "    echo srun ./a\n",
		"srunner ./a":                             "    srunner ./a\n",
		"# srun ./a\n./b":                         "    # srun ./a\n    ./b\n",
	} {
		if out, notes := result(t, "f", "#!/bin/sh\n#SBATCH -t 5\n"+line+"\n"); !strings.Contains(out, want) {
			t.Errorf("%s: %q is missing in\n%s%s", line, want, out, notes)
		}
	}
}

// TestVariables: the variables of Slurm that a script uses are set, for one task and for several.
func TestVariables(t *testing.T) {
	for name, want := range map[string][2]string{
		"SLURM_JOB_ID":           {"$ESCHER_JOB", "$ESCHER_JOB"},
		"SLURM_PROCID":           {"0", "$ESCHER_INDEX"},
		"SLURM_NTASKS":           {"1", "$ESCHER_COUNT"},
		"SLURM_NODEID":           {"0", "$((ESCHER_INDEX / 2))"},
		"SLURM_LOCALID":          {"0", "$((ESCHER_INDEX % 2))"},
		"SLURM_NNODES":           {"1", "2"},
		"SLURM_NTASKS_PER_NODE":  {"1", "2"},
		"SLURM_CPUS_PER_TASK":    {"3", "3"},
		"SLURM_CPUS_ON_NODE":     {"3", "6"},
		"SLURM_JOB_NAME":         {"v", "v"},
		"SLURM_RESTART_COUNT":    {"$((ESCHER_ATTEMPT - 1))", "$((ESCHER_ATTEMPT - 1))"},
		"SLURM_SUBMIT_DIR":       {"$PWD", "$PWD"},
		"SLURM_ARRAY_TASK_ID":    {"", ""},
		"SLURM_JOB_NODELIST":     {"", ""},
		"SLURM_MEM_PER_NODE":     {"", ""},
		"SLURM_GPUS_ON_NODE":     {"", ""},
		"SLURM_ARRAY_TASK_COUNT": {"", ""},
	} {
		for i, options := range []string{"", " -N 2 --ntasks-per-node=2"} {
			out, notes := result(t, "v.sh", "#!/bin/bash\n#SBATCH -c 3"+options+"\nsrun ./a ${"+name+":-x}\n")
			line := "export " + name + "=" + want[i] + "\n"
			if want[i] != "" && !strings.Contains(out, line) {
				t.Errorf("%q is missing in\n%s", line, out)
			}
			if want[i] == "" && (strings.Contains(out, "export") || !strings.Contains(notes, "0: the variable "+name+" is dropped: ")) {
				t.Errorf("%s is set, or not told:\n%s%s", name, out, notes)
			}
		}
	}
	if out, _ := result(t, "v.sh", "#!/bin/bash\n#SBATCH -a 0-3\n./a $SLURM_ARRAY_TASK_ID $SLURM_GPUS\n"); !strings.Contains(out, "export SLURM_ARRAY_TASK_ID=$ESCHER_INDEX\n") {
		t.Errorf("the index is missing in\n%s", out)
	}
}

// TestKeys: what each key of a service becomes, as a text of the result.
func TestKeys(t *testing.T) {
	checkKeys(t, map[string]string{
		"command: sh -c 'a b'":                        `command: [sh, -c, a b]`,
		"command: [a, 5]":                             `command: [a, "5"]`,
		"command: null":                               "image: img\n",
		"entrypoint: ''":                              "image: img\n",
		"entrypoint: [a]":                             "entrypoint: [a]\n",
		"environment: {A: 1, B: true}":                "env:\n    A: \"1\"\n    B: \"true\"\n",
		"environment: [A=b=c]":                        "env:\n    A: b=c\n",
		"working_dir: /w":                             "dir: /w\n",
		"user: 1000:1000":                             "user: 1000:1000\n",
		"stop_signal: SIGINT":                         "stopSignal: SIGINT\n",
		"stop_grace_period: 1m30s":                    "grace: 1m30s\n",
		"stop_grace_period: soon":                     `stop_grace_period is dropped: "soon" is not a duration`,
		"read_only: true":                             "readOnlyRoot: true\n",
		"init: true":                                  "init: true\n",
		"cap_add: [SYS_PTRACE]":                       "capAdd: [SYS_PTRACE]\n",
		"cap_drop: [ALL]\n    privileged: true":       "cap_drop is dropped: a privileged task has every capability",
		"shm_size: 64M":                               "shm: 64Mi\n",
		"shm_size: 67108864":                          "shm: 64Mi\n",
		"mem_limit: 1.5g":                             "requests: {memory: 1536Mi}",
		"mem_limit: lots":                             `mem_limit is dropped: "lots" is not a size`,
		"cpus: 1.5":                                   "requests: {cpu: 1.5}",
		"cpus: '2'":                                   "requests: {cpu: 2}",
		"pids_limit: 10":                              "pids: 10\n",
		"pids_limit: -1":                              "image: img\n",
		"scale: 2":                                    "count: 2\n",
		"scale: 0":                                    "scale is dropped: a job has at least one task",
		"gpus: [{driver: nvidia, count: 4}]":          "requests: {gpu: 4}",
		"ports: ['80']":                               "ports: [80]\n",
		"ports: ['80:80', 80]":                        "ports: [80]\n",
		"ports: ['0']":                                "port :0 is dropped",
		"expose: ['5432']":                            "ports: [5432]\n",
		"volumes: ['/data']":                          "mounts: [{target: /data}]\n",
		"volumes: ['/a:/b:ro,z']":                     "mounts: [{source: /a, target: /b, readOnly: true}]\n",
		"volumes: ['name:/b']":                        "volume name: it is a directory of the task",
		"volumes: ['.:/app']":                         "workdir: {from: ., to: /app}\n",
		"tmpfs: /t:size=1g":                           "tmpfs: [{target: /t, size: 1Gi}]\n",
		"tmpfs: /run":                                 "image: img\n",
		"labels: {a: b}":                              "labels:\n  a: b\n",
		"labels: {a: 'b c'}":                          "label a is dropped",
		"restart: on-failure:2":                       "restart: {when: on-failure, limit: 2}\n",
		"restart: 'no'":                               "image: img\n",
		"restart: unless-stopped":                     "restart: {when: always}\n",
		"ulimits: {nofile: 5}":                        "ulimits: {nofile: 5}\n",
		"healthcheck: {test: [CMD, a, b]}":            "exec: {command: [a, b]}}]\n",
		"healthcheck: {interval: 5s}":                 "healthcheck is dropped: it has no test",
		"healthcheck: {test: [NONE]}":                 "noHealthcheck: true\n",
		"deploy: {restart_policy: {condition: none}}": "image: img\n",
		"deploy: {restart_policy: {delay: 3s}}":       "restart: {when: always, delay: 3s}\n",
		"deploy: {resources: {reservations: {memory: 1g}}}": "requests: {memory: 1Gi}",
		"deploy: {resources: {limits: {cpus: many}}}":       "services.a.deploy.resources.limits.cpus is dropped",
		"deploy: {endpoint_mode: vip}":                      "services.a.deploy.endpoint_mode is dropped",
		"deploy: {labels: {a: b}}":                          "labels:\n  a: b\n",
	})
}

// TestLackedKeys: a note names each key that Escher lacks.
func TestLackedKeys(t *testing.T) {
	checkKeys(t, map[string]string{
		"depends_on: [b]":                                        "services.a.depends_on.b is dropped",
		"ulimits: {nofile: lots}":                                `services.a.ulimits is dropped: "lots" is not a whole number`,
		"deploy: {update_config: {parallelism: 0}}":              "parallelism is dropped: all tasks at once",
		"deploy: {update_config: {delay: 3s}}":                   "delay is dropped: an update goes on once its new tasks are healthy",
		"deploy: {update_config: {monitor: soon}}":               `monitor is dropped: "soon" is not a duration: write it such as 10s`,
		"deploy: {update_config: {failure_action: rollback}}":    "failure_action is dropped: an update stops at the first task that fails",
		"network_mode: host":                                     "services.a.network_mode is dropped",
		"extra_hosts: ['a:1.2.3.4']":                             "services.a.extra_hosts is dropped",
		"secrets: [k]":                                           "services.a.secrets is dropped",
		"devices: [/dev/fuse]":                                   "services.a.devices is dropped",
		"stdin_open: true":                                       "services.a.stdin_open is dropped",
		"sysctls: {a: 1}":                                        "services.a.sysctls is dropped",
		"mem_swappiness: 5":                                      "services.a.mem_swappiness is dropped",
		"extends: b":                                             "services.a.extends is dropped",
		"nosuch: 1":                                              "services.a.nosuch is dropped",
		"x-own: 1":                                               "image: img\n",
		"env_file: none.env":                                     "env_file none.env is dropped",
		"gpus: [{driver: nvidia, count: some}]":                  `gpus is dropped: "some" is not a number of GPUs`,
		"ulimits: {nofile: {soft: 1, hard: 2}}":                  "ulimits: {nofile: \"1:2\"}\n",
		"volumes: [{type: bind, source: /a, target: /b}]":        "mounts: [{source: /a, target: /b}]\n",
		"ports: [{target: 5, published: 6, protocol: udp}]":      "port 6:5: Escher does not tell udp from tcp",
		"depends_on: {b: {condition: service_started}}":          "services.a.depends_on.b is dropped",
		"healthcheck: {test: a, retries: 2, start_period: 1m0s}": "exec: {command: [sh, -c, a]}, startPeriod: 1m, failures: 2}]",
	})
}

// checkKeys converts services with a key. Each has a text in its result or notes.
func checkKeys(t *testing.T, texts map[string]string) {
	t.Helper()
	for key, want := range texts {
		out, notes := result(t, "compose.yaml", "services:\n  a:\n    image: img\n    "+key+"\n")
		if !strings.Contains(out+notes, want) {
			t.Errorf("%s: %q is missing in\n%s%s", key, want, out, notes)
		}
		if strings.Contains(want, "image: img") && notes != "" {
			t.Errorf("%s: is told, and changes nothing: %s", key, notes)
		}
	}
}

// TestOrder: services come behind those that they wait for, in a circle, too.
func TestOrder(t *testing.T) {
	const after = ": {image: i, depends_on: {%: {condition: service_completed_successfully}}}\n"
	on := func(name, other string) string { return "  " + name + strings.ReplaceAll(after, "%", other) }
	for text, want := range map[string]string{
		on("a", "b") + on("b", "c") + "  c: {image: i}\n": "c b a",
		"  c: {image: i}\n" + on("a", "c"):                "c a",
		on("a", "b") + on("b", "a"):                       "b a",
		on("a", "none"):                                   "a",
	} {
		out, _ := result(t, "compose.yaml", "services:\n"+text)
		var names []string
		for line := range strings.Lines(out) {
			if name, ok := strings.CutPrefix(line, "name: "); ok {
				names = append(names, strings.TrimSpace(name))
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestMerges: aliases and merges are expanded, and what a service says itself wins.
func TestMerges(t *testing.T) {
	out, notes := result(t, "compose.yaml", `
x-a: &a {image: one, restart: always}
x-b: &b {user: "5", restart: "no"}
services:
  first: {<<: *a, image: two}
  second: {<<: [*a, *b]}
`)
	for _, want := range []string{"name: first\ntemplate:\n  image: two\n  restart: {when: always}\n", "name: second\ntemplate:\n  image: one\n  restart: {when: always}\n  user: \"5\"\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s%s", want, out, notes)
		}
	}
}

// TestSizes: a size becomes no smaller, and one of 0 is left out.
func TestSizes(t *testing.T) {
	checkKeys(t, map[string]string{
		"mem_limit: 1000000000b": "memory: 954Mi}",
		"mem_limit: 100":         "memory: 1Mi}",
		"mem_limit: 512k":        "memory: 512Ki}",
		"mem_limit: 1.5gb":       "memory: 1536Mi}",
		"mem_limit: 0":           "image: img\n",
		"mem_limit: 9999999t":    `"9999999t" is not a size: write it such as 512m`,
		"mem_limit: -1":          `"-1" is not a size`,
	})
}
