package convert

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/escher-sched/escher/types"
)

// setPorts takes ports: a task has those of its node, so the one that the program listens at counts.
func (s *service) setPorts(e entry) error {
	for _, p := range e.value.Content {
		target, published, protocol := portOf(p)
		at := "port " + strings.TrimSpace(published+":"+target)
		n, err := strconv.Atoi(target)
		switch {
		case err != nil || n < 1 || n > types.MaxPort:
			s.dropped(p.Line, at, "write each port as a number, ports: [8080]")
			continue
		case protocol == "udp":
			s.add(p.Line, at, "Escher does not tell udp from tcp: the port is requested")
		case published != "" && published != target:
			s.add(p.Line, at, "Escher maps no ports, the task listens at %s of its node: have the program listen at %s, or at $PORT of ports: [http]", target, published)
		}
		if !slices.Contains(s.ports, any(n)) {
			s.ports = append(s.ports, n)
		}
	}
	return nil
}

// portOf returns the parts of a port: [[IP:]PUBLISHED:]TARGET[/PROTOCOL], or its fields.
func portOf(n *yaml.Node) (target, published, protocol string) {
	if n.Kind == yaml.MappingNode {
		return field(n, "target").Value, field(n, "published").Value, field(n, "protocol").Value
	}
	text, protocol, _ := strings.Cut(n.Value, "/")
	parts := strings.Split(text, ":")
	if len(parts) > 1 {
		published = parts[len(parts)-2]
	}
	return parts[len(parts)-1], published, protocol
}

func (s *service) setVolumes(e entry) error {
	for _, v := range e.value.Content {
		source, target, readOnly := volumeOf(v)
		mount := flow()
		switch {
		case field(v, "type").Value == "tmpfs":
			s.addTmpfs(target, "")
			continue
		case !path.IsAbs(target):
			s.dropped(v.Line, "volume "+v.Value, "its path in the container is not absolute: correct it")
			continue
		case strings.HasPrefix(source, ".") && s.workdir == nil:
			s.workdir = flow()
			s.workdir.set("from", source)
			s.workdir.set("to", target)
			s.add(v.Line, "volume "+source, "it is sent to the node as it is now, and the program starts there unless dir is given (workdir); what the task writes there stays in its container")
			continue
		case strings.HasPrefix(source, "/"):
			mount.set("source", source)
			s.add(v.Line, "volume "+source, "the node must permit it: escher agent --allow-mount %s", source)
		case strings.HasPrefix(source, ".") || strings.HasPrefix(source, "~"):
			s.dropped(v.Line, "volume "+source, "mounts have an absolute path of the node: give one that each node has")
			continue
		case source != "":
			s.add(v.Line, "volume "+source, "it is a directory of the task, which ends with it: mount a directory of the node to keep it, mounts: [{source: /DIR, target: %s}]", target)
		}
		mount.set("target", target)
		if readOnly && source != "" && path.IsAbs(source) {
			mount.set("readOnly", true)
		}
		s.mounts = append(s.mounts, mount)
	}
	return nil
}

// volumeOf returns the parts of a volume: [SOURCE:]TARGET[:MODE], or its fields.
func volumeOf(n *yaml.Node) (source, target string, readOnly bool) {
	if n.Kind == yaml.MappingNode {
		return field(n, "source").Value, field(n, "target").Value, field(n, "read_only").Value == "true"
	}
	parts := strings.Split(n.Value, ":")
	if len(parts) == 1 {
		return "", parts[0], false
	}
	return parts[0], parts[1], len(parts) > 2 && slices.Contains(strings.Split(parts[2], ","), "ro")
}

func (s *service) setTmpfs(e entry) error {
	for _, one := range texts(e.value) {
		target, options, _ := strings.Cut(one, ":")
		size := ""
		for _, o := range strings.Split(options, ",") {
			if v, ok := strings.CutPrefix(o, "size="); ok {
				if n, err := composeSize(v); err == nil && n > 0 {
					size = sizeText(n)
				}
			}
		}
		s.addTmpfs(target, size)
	}
	return nil
}

func (s *service) addTmpfs(target, size string) {
	if target == "/run" || target == "/dev/shm" {
		return // in memory in every container
	}
	t := flow()
	t.set("target", target)
	some(t, "size", size)
	s.tmpfs = append(s.tmpfs, t)
}
