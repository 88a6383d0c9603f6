package convert

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// setHealth takes a check by a command.
func (s *service) setHealth(e entry) error {
	test := texts(field(e.value, "test"))
	if field(e.value, "disable").Value == "true" || len(test) > 0 && test[0] == "NONE" {
		s.task.set("noHealthcheck", true)
		return nil
	}
	check, exec := flow(), flow()
	switch {
	case len(test) == 0:
		return fmt.Errorf("it has no test: write checks: […]")
	case field(e.value, "test").Kind == yaml.ScalarNode:
		test = []string{"sh", "-c", test[0]}
	case test[0] == "CMD-SHELL" && len(test) > 1:
		test = []string{"sh", "-c", test[1]}
	default:
		test = test[1:]
	}
	exec.set("command", test)
	check.set("name", "health")
	check.set("exec", exec)
	for _, t := range [][2]string{{"interval", "every"}, {"timeout", "timeout"}, {"start_period", "startPeriod"}} {
		if d, err := time.ParseDuration(field(e.value, t[0]).Value); err == nil && d > 0 {
			check.set(t[1], durationText(d))
		}
	}
	if n, err := whole(field(e.value, "retries")); err == nil && n > 0 {
		check.set("failures", n)
	}
	if field(e.value, "start_interval").Value != "" {
		s.dropped(e.line, "services."+s.name+".healthcheck.start_interval", "checks have one interval: every")
	}
	s.task.set("checks", []any{check})
	return nil
}

// setDeploy takes the number of tasks, and their resources.
func (s *service) setDeploy(e entry) error {
	for _, d := range entries(e.value) {
		at := "services." + s.name + ".deploy." + d.key
		var err error
		switch d.key {
		case "replicas":
			err = s.setCount(d)
		case "labels":
			err = s.setLabels(d)
		case "mode":
			if d.value.Value != "replicated" {
				err = fmt.Errorf("no job runs on each node by itself: give count and apart: {}")
			}
		case "resources":
			s.setResources(d)
		case "restart_policy":
			s.setRestartPolicy(d)
		case "placement":
			err = fmt.Errorf("%s", byNodes)
		case "update_config":
			s.setUpdate(d)
		case "rollback_config":
			err = fmt.Errorf("to go back, apply the former file")
		default:
			err = fmt.Errorf("it is unknown to Escher: leave it out")
		}
		if err != nil {
			s.dropped(d.line, at, "%s", err)
		}
	}
	return nil
}

// setUpdate takes how a new version replaces the tasks.
func (s *service) setUpdate(e entry) {
	s.update = flow()
	for _, u := range entries(e.value) {
		var err error
		switch u.key {
		case "parallelism":
			var n int
			if n, err = whole(u.value); err == nil && n > 0 {
				s.update.set("atOnce", n)
			} else if err == nil {
				err = fmt.Errorf("all tasks at once: give the count of the job as atOnce, or leave update out")
			}
		case "order":
			s.update.set("order", u.value.Value)
		case "monitor":
			var d time.Duration
			if d, err = time.ParseDuration(u.value.Value); err != nil {
				err = fmt.Errorf("%q is not a duration: write it such as 10s", u.value.Value)
			} else if d > 0 {
				s.update.set("healthy", durationText(d))
			}
		case "failure_action":
			if u.value.Value != "pause" {
				err = fmt.Errorf("an update stops at the first task that fails: to go on or back, apply a file again")
			}
		case "delay":
			err = fmt.Errorf("an update goes on once its new tasks are healthy: see healthy")
		default:
			err = fmt.Errorf("an update stops at the first task that fails: leave it out")
		}
		if err != nil {
			s.dropped(u.line, "services."+s.name+".deploy.update_config."+u.key, "%s", err)
		}
	}
}

// setResources takes limits and reservations: what a task requests is its limit, too.
func (s *service) setResources(e entry) {
	for _, part := range []string{"reservations", "limits"} {
		for _, r := range entries(field(e.value, part)) {
			var err error
			switch r.key {
			case "cpus":
				err = s.setCPUs(r)
			case "memory":
				err = s.size(func(size string) { s.requests["memory"] = size })(r)
			case "pids":
				err = s.setPids(r)
			case "devices":
				err = s.setDevices(r.value)
			default:
				err = fmt.Errorf("it is unknown to Escher: leave it out")
			}
			if err != nil {
				s.dropped(r.line, fmt.Sprintf("services.%s.deploy.resources.%s.%s", s.name, part, r.key), "%s", err)
			}
		}
	}
}

func (s *service) setRestartPolicy(e entry) {
	when := field(e.value, "condition")
	if when.Value == "" {
		when = &yaml.Node{Kind: yaml.ScalarNode, Value: "any"}
	}
	if err := s.setRestart(entry{e.key, e.line, when}); err != nil || s.restart == nil {
		return
	}
	if n, err := whole(field(e.value, "max_attempts")); err == nil && n > 0 {
		s.restart.set("limit", n)
	}
	if d, err := time.ParseDuration(field(e.value, "delay").Value); err == nil && d > 0 {
		s.restart.set("delay", durationText(d))
	}
	if window := field(e.value, "window"); window.Value != "" {
		s.dropped(window.Line, "services."+s.name+".deploy.restart_policy.window", "restarts count for the whole attempt: leave it out")
	}
}
