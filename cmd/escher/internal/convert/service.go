package convert

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// remedies says what to do instead of keys that have no counterpart.
func remedies() map[string]string {
	const (
		host     = "a task is in the network of its node: it has the node's names and addresses"
		logs     = "Escher keeps the output: escher logs NAME"
		devices  = "count devices with escher agent --device, and request them"
		kernel   = "it is a setting of the node: set it there"
		cpus     = "requests: {cpu: …} is the share of a task, and cpuLimit: none lets it use more"
		memory   = "requests: {memory: …} is the limit of a task, without swap"
		secrets  = "store the values with escher secret set, and name them in secrets of the task"
		configs  = "mount a file of the node, with mounts"
		terminal = "give a terminal to one task by escher run -it, or escher exec -it"
		compose  = "it concerns docker compose alone: leave it out"
		spaces   = "the namespaces of a container cannot be shared here: leave it out"
	)
	out := make(map[string]string)
	for remedy, keys := range map[string]string{
		host:    "networks links external_links dns dns_opt dns_search extra_hosts hostname domainname mac_address network_mode",
		logs:    "logging attach log_driver log_opt",
		devices: "devices device_cgroup_rules runtime", kernel: "sysctls security_opt storage_opt isolation credential_spec group_add cgroup cgroup_parent",
		cpus:   "cpuset cpu_shares cpu_quota cpu_period cpu_rt_period cpu_rt_runtime cpu_count cpu_percent",
		memory: "mem_reservation memswap_limit mem_swappiness oom_kill_disable oom_score_adj", secrets: "secrets", configs: "configs",
		terminal: "tty stdin_open", compose: "profiles container_name pull_policy platform develop annotations label_file post_start pre_stop provider use_api_socket",
		spaces: "pid ipc uts userns_mode volumes_from", "requests of devices limit nothing else: leave it out": "blkio_config",
		"write the fields of the other service here, escher does not read them": "extends",
	} {
		for _, key := range strings.Fields(keys) {
			out[key] = remedy
		}
	}
	return out
}

// handlers are the keys with a counterpart.
func (s *service) handlers() map[string]func(entry) error {
	text := func(name string) func(entry) error {
		return func(e entry) error { s.task.set(name, e.value.Value); return nil }
	}
	flag := func(name string) func(entry) error {
		return func(e entry) error {
			if e.value.Value == "true" {
				s.task.set(name, true)
			}
			return nil
		}
	}
	words := func(name string) func(entry) error {
		return func(e entry) error { list(s.task, name, texts(e.value)); return nil }
	}
	capabilities := func(name string) func(entry) error {
		return func(e entry) error {
			if s.privileged {
				return errors.New("a privileged task has every capability")
			}
			return words(name)(e)
		}
	}
	return map[string]func(entry) error{
		"image": func(e entry) error { s.image = e.value.Value; return nil }, "build": func(e entry) error { s.build = e.line; return nil },
		"command": func(e entry) error { s.command = program(e.value); return nil }, "entrypoint": s.setEntrypoint,
		"environment": s.setEnvironment, "env_file": s.setEnvFile, "working_dir": text("dir"), "user": text("user"),
		"stop_signal": text("stopSignal"), "stop_grace_period": s.duration("grace"), "read_only": flag("readOnlyRoot"), "privileged": flag("privileged"),
		"init": flag("init"), "cap_add": capabilities("capAdd"), "cap_drop": capabilities("capDrop"), "ulimits": s.setUlimits,
		"shm_size": s.size(func(size string) { s.task.set("shm", size) }), "mem_limit": s.size(func(size string) { s.requests["memory"] = size }),
		"cpus": s.setCPUs, "pids_limit": s.setPids, "gpus": s.setGPUs, "scale": s.setCount, "ports": s.setPorts, "expose": s.setPorts,
		"volumes": s.setVolumes, "tmpfs": s.setTmpfs, "labels": s.setLabels, "restart": s.setRestart, "depends_on": s.setDepends,
		"healthcheck": s.setHealth, "deploy": s.setDeploy,
	}
}

// texts returns the texts of a list, or of one text.
func texts(n *yaml.Node) (out []string) {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}
	}
	for _, one := range n.Content {
		out = append(out, one.Value)
	}
	return out
}

// program returns a command: a list, or a text that is split into words.
func program(n *yaml.Node) []string {
	if n.Kind == yaml.ScalarNode {
		return splitWords(n.Value)
	}
	return texts(n)
}

func (s *service) setEntrypoint(e entry) error {
	s.entrypoint = program(e.value)
	s.noEntrypoint = len(s.entrypoint) == 0
	return nil
}

func (s *service) setEnvironment(e entry) error {
	for _, v := range entries(e.value) {
		value := v.value.Value
		if v.value.Tag == "!!null" {
			var set bool
			if value, set = s.vars.lookup(v.key); !set {
				s.dropped(v.line, "the variable "+v.key, "it is not set where the file is converted: write env: {%s: …}", v.key)
				continue
			}
		}
		s.setEnv(v.key, value)
	}
	return nil
}

// setEnv sets a variable. environment replaces what a file says.
func (s *service) setEnv(name, value string) {
	for i := 0; i+1 < len(s.env.node.Content); i += 2 {
		if s.env.node.Content[i].Value == name {
			s.env.node.Content[i+1].SetString(value)
			return
		}
	}
	s.env.set(name, value)
}

func (s *service) setEnvFile(e entry) error {
	files := []*yaml.Node{e.value}
	if e.value.Kind == yaml.SequenceNode {
		files = e.value.Content
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries(&s.env.node), func(e entry) bool { return e.key == name })
	}
	for _, file := range files {
		name := file.Value
		if file.Kind == yaml.MappingNode {
			name = field(file, "path").Value
		}
		var text []byte
		err := fmt.Errorf("no file can be read here")
		if s.in.Read != nil {
			text, err = s.in.Read(name)
		}
		if err != nil {
			s.dropped(file.Line, "env_file "+name, "it cannot be read: write its variables into env")
			continue
		}
		names, values := envFile(text)
		for _, name := range names {
			if !has(name) {
				s.env.set(name, values[name])
			}
		}
	}
	return nil
}

// duration sets a duration: of compose, which is that of Go.
func (s *service) duration(name string) func(entry) error {
	return func(e entry) error {
		d, err := time.ParseDuration(e.value.Value)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration: write it such as 1m30s", e.value.Value)
		}
		if d == 0 {
			d = time.Millisecond // at once
		}
		s.task.set(name, durationText(d))
		return nil
	}
}

// size reads a size of compose: a number with b, k, m or g, of 1024.
func (s *service) size(set func(string)) func(entry) error {
	return func(e entry) error {
		n, err := composeSize(e.value.Value)
		if err == nil && n > 0 {
			set(sizeText(n))
		}
		return err
	}
}

func composeSize(v string) (int64, error) {
	m := regexp.MustCompile(`^(?i)([0-9]{1,15})(?:\.[0-9]+)?\s*([kmgt]?)i?b?$`).FindStringSubmatch(v)
	if m == nil {
		return 0, fmt.Errorf("%q is not a size: write it such as 512m", v)
	}
	whole, unit := regexp.MustCompile(`^[0-9.]+`).FindString(v), strings.ToLower(m[2])
	n, err := strconv.ParseFloat(whole, 64)
	n *= float64(int64(1) << map[string]int{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[unit])
	if err != nil || n > 1<<60 {
		return 0, fmt.Errorf("%q is not a size: write it such as 512m", v)
	}
	size := int64(n)
	if size%(1<<10) != 0 { // a limit must not become smaller
		size = (size + 1<<20 - 1) >> 20 << 20
	}
	return size, nil
}

func (s *service) setCPUs(e entry) error {
	n, err := strconv.ParseFloat(e.value.Value, 64)
	if err != nil || n < 0 || n > 1e6 {
		return fmt.Errorf("%q is not a number of processors: write it such as 0.5", e.value.Value)
	}
	if n > 0 {
		s.requests["cpu"] = n
	}
	return nil
}

// whole reads a whole number.
func whole(n *yaml.Node) (int, error) {
	v, err := strconv.Atoi(n.Value)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number: correct it", n.Value)
	}
	return v, nil
}

func (s *service) setPids(e entry) error {
	n, err := whole(e.value)
	s.pids = max(n, 0)
	return err
}

func (s *service) setCount(e entry) error {
	n, err := whole(e.value)
	if err == nil && n < 1 {
		err = fmt.Errorf("a job has at least one task: submit it later")
	}
	s.count = n
	return err
}

// setGPUs takes all, or a list of devices.
func (s *service) setGPUs(e entry) error {
	if e.value.Kind == yaml.SequenceNode {
		return s.setDevices(e.value)
	}
	s.add(e.line, "gpus: "+e.value.Value, "a task requests a number of GPUs, 1 here: correct requests")
	s.requests["gpu"] = 1
	return nil
}

// setDevices takes reserved devices.
func (s *service) setDevices(list *yaml.Node) error {
	for _, d := range list.Content {
		gpu := field(d, "driver").Value == "nvidia" || slices.Contains(texts(field(d, "capabilities")), "gpu")
		if !gpu {
			s.dropped(d.Line, "a device of "+field(d, "driver").Value, "count such devices with escher agent --device, and request them")
			continue
		}
		n := 1
		switch count := field(d, "count"); {
		case len(field(d, "device_ids").Content) > 0:
			n = len(field(d, "device_ids").Content)
			s.dropped(field(d, "device_ids").Line, "device_ids", "Escher chooses the devices: their number is requested")
		case count.Value == "all" || count.Value == "":
			s.add(d.Line, "all GPUs", "a task requests a number of GPUs, 1 here: correct requests")
		default:
			var err error
			if n, err = whole(count); err != nil || n < 1 {
				return fmt.Errorf("%q is not a number of GPUs: correct it", count.Value)
			}
		}
		s.requests["gpu"] = n
	}
	return nil
}

func (s *service) setLabels(e entry) error {
	for _, l := range entries(e.value) {
		if types.ValidateLabelKey("key", l.key) != nil || types.ValidateLabelValue("value", l.value.Value) != nil {
			s.dropped(l.line, "label "+l.key, "a label of Escher has a short key and value of letters, digits, - . and _: shorten it")
			continue
		}
		s.labels.set(l.key, l.value.Value)
	}
	return nil
}

// setRestart takes no, always, unless-stopped, and on-failure[:N].
func (s *service) setRestart(e entry) error {
	when, limit, limited := strings.Cut(e.value.Value, ":")
	switch when {
	case "no", "false", "none":
		return nil
	case "unless-stopped", "any":
		when = "always"
	case "always", "on-failure":
	default:
		return fmt.Errorf("%q is unknown: write restart: {when: on-failure}", when)
	}
	s.restart = flow()
	s.restart.set("when", when)
	if n, err := strconv.Atoi(limit); limited && err == nil && n > 0 {
		s.restart.set("limit", n)
	}
	return nil
}

// setDepends takes the services that must end before: Escher orders no others.
func (s *service) setDepends(e entry) error {
	var jobs []string
	for _, d := range entries(e.value) {
		if completed(d) {
			jobs = append(jobs, new(notes).nameOf(0, d.key))
			continue
		}
		s.dropped(d.line, "services."+s.name+".depends_on."+d.key, "Escher does not order services: have the program try again until %s answers, with restart: {when: always}", d.key)
	}
	if len(jobs) > 0 {
		s.after = flow()
		s.after.set("jobs", jobs)
	}
	return nil
}

// setUlimits takes numbers, and {soft, hard}.
func (s *service) setUlimits(e entry) error {
	limits := flow()
	for _, u := range entries(e.value) {
		if !slices.Contains(types.Ulimits(), u.key) {
			s.dropped(u.line, "ulimit "+u.key, "use one of %s", strings.Join(types.Ulimits(), ", "))
			continue
		}
		if u.value.Kind == yaml.MappingNode {
			limits.set(u.key, field(u.value, "soft").Value+":"+field(u.value, "hard").Value)
		} else if n, err := whole(u.value); err != nil {
			return err
		} else {
			limits.set(u.key, n)
		}
	}
	if !limits.empty() {
		s.task.set("ulimits", limits)
	}
	return nil
}
