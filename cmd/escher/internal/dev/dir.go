// Package dev runs a cluster in one process on one machine: etcd, scheduler, garbage collector and
// agents, with containerd.
package dev

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/controlplane/sockets"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// Dir is the directory of a cluster; only its owner can enter it.
//
//	lock          the process that it belongs to
//	cluster       the id of the cluster
//	dev.json      Info, while the cluster runs
//	dev.log       the log of all components
//	cdi/          the description of simulated GPUs
//	run/          sockets: ops.sock has metrics and health, api.sock the HTTP API
//	history/      the history of ended tasks
//	secrets.key   the key that seals secrets
//	etcd/         data, log and socket
//	containerd/   a private containerd, if the machine has none
//	agents/<node> the state of its agent, and the logs of tasks
type Dir string

func (d Dir) path(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

// Endpoint returns the endpoint of etcd while the cluster runs.
func (d Dir) Endpoint() string { return contexts.Endpoint(string(d)) }

func (d Dir) etcd() string             { return contexts.EtcdDir(string(d)) }
func (d Dir) containerd() string       { return d.path("containerd") }
func (d Dir) agent(node string) string { return d.path("agents", node) }
func (d Dir) info() string             { return d.path("dev.json") }
func (d Dir) secretsKey() string       { return d.path("secrets.key") }

// OpsSocket returns the socket of metrics and health while the cluster runs.
func (d Dir) OpsSocket() string {
	return "unix://" + filepath.Join(sockets.Dir(string(d)), "ops.sock")
}

// APISocket returns the socket of the HTTP API while the cluster runs.
func (d Dir) APISocket() string {
	return "unix://" + filepath.Join(sockets.Dir(string(d)), "api.sock")
}

// LogFile returns the log file of all components.
func (d Dir) LogFile() string { return d.path("dev.log") }

// formerNodes returns the nodes whose agents have ever run here.
func (d Dir) formerNodes() ([]string, error) {
	entries, err := os.ReadDir(d.path("agents"))
	if err != nil && !os.IsNotExist(err) {
		return nil, types.Errorf(types.Precondition, "look for the nodes of %s: %w", d, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Runtimes makes the runtime of a node.
type Runtimes func(node string) (nodeagent.Runtime, error)

// LoggerSubcommand is the first argument of Config.Logger.
const LoggerSubcommand = "task-log"

// Info describes a running cluster.
type Info struct {
	// Cluster is its id.
	Cluster string `json:"cluster"`
	PID     int    `json:"pid"`
	// Endpoint is etcd's.
	Endpoint string   `json:"endpoint"`
	Nodes    []string `json:"nodes"`
	// Ops are the addresses of metrics and health, and API is that of the HTTP API.
	Ops []string `json:"ops,omitempty"`
	API string   `json:"api,omitempty"`
	// Containerd is the socket of containerd, ContainerdNamespace the namespace there of our
	// containers and images; empty without containers.
	Containerd          string `json:"containerd,omitempty"`
	ContainerdNamespace string `json:"containerdNamespace,omitempty"`
}

// Info reads the Info of the running cluster. Unavailable: none runs here.
func (d Dir) Info() (Info, error) {
	var info Info
	text, err := os.ReadFile(d.info())
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	if err != nil {
		return info, types.Errorf(types.Unavailable, "find the cluster of %s: %w: start it with escher dev --dir %s", d, err, d)
	}
	return info, nil
}

func (d Dir) writeInfo(info Info) error {
	text, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return types.Errorf(types.Internal, "write %s: %w", d.info(), err)
	}
	return replaceFile(d.info(), append(text, '\n'))
}

// clusterID returns the id of the cluster, and creates it on first use.
func (d Dir) clusterID() (string, error) {
	text, err := os.ReadFile(d.path("cluster"))
	if err == nil {
		id := strings.TrimSpace(string(text))
		return id, types.ValidateName(d.path("cluster"), id)
	}
	if !os.IsNotExist(err) {
		return "", types.Errorf(types.Precondition, "read the id of the cluster: %w", err)
	}
	id := ids.New("dev")
	return id, replaceFile(d.path("cluster"), []byte(id+"\n"))
}

// replaceFile writes a file atomically, even if the machine fails.
func replaceFile(path string, text []byte) error {
	err := func() error {
		f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.Write(text); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		return os.Rename(path+".new", path)
	}()
	if err != nil {
		return types.Errorf(types.Precondition, "write %s: %w", path, err)
	}
	return nil
}
