package containerd

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// The labels of a container: all that is known of it besides what containerd
// itself keeps.
const (
	labelCluster   = "escher/cluster"
	labelNode      = "escher/node"
	labelNamespace = "escher/namespace"
	labelTask      = "escher/task"
	labelNumber    = "escher/attempt"
	labelRevision  = "escher/revision"
	labelRestart   = "escher/restart"
	// labelImage is the image by digest.
	labelImage = "escher/image"
	// labelDevices are the names of its devices, with commas between.
	labelDevices = "escher/devices"
	// labelStarted is when the process was about to be started. Without it the
	// process never ran.
	labelStarted = "escher/started"
	// labelLog is the path of the log, and labelOutput which pipes lead there; both are
	// missing where there is no log.
	labelLog    = "escher/log"
	labelOutput = "escher/output"
	// labelLost is when it was found that the process, once started, is gone
	// and nobody knows how it ended.
	labelLost = "escher/lost"
)

func labelsOf(c nodeagent.Container, image string, stop syscall.Signal) map[string]string {
	labels := map[string]string{
		labelCluster:   c.Attempt.Cluster,
		labelNode:      c.Attempt.Node,
		labelNamespace: c.Attempt.Namespace,
		labelTask:      c.Attempt.Task,
		labelNumber:    strconv.Itoa(c.Attempt.Number),
		labelRevision:  strconv.FormatInt(c.Attempt.Revision, 10),
		labelRestart:   strconv.Itoa(c.Restart),
		labelImage:     image,
		// It is the label that other tools have for it.
		client.StopSignalLabel: strconv.Itoa(int(stop)),
	}
	if c.LogPath != "" {
		labels[labelLog] = c.LogPath
	}
	// containerd takes labels of 4 KiB: names of more devices than a machine has.
	const most = 4000
	if devices := strings.Join(c.Devices, ","); devices != "" && len(devices) < most {
		labels[labelDevices] = devices
	}
	return labels
}

// devicesOf returns the names of a container's devices.
func devicesOf(labels map[string]string) []string {
	if labels[labelDevices] == "" {
		return nil
	}
	return strings.Split(labels[labelDevices], ",")
}

// restartOf returns how often the attempt of a container was run before.
func restartOf(labels map[string]string) int {
	n, err := strconv.Atoi(labels[labelRestart])
	if err != nil { // It was made before there were restarts.
		return 0
	}
	return n
}

// attemptOf reads what labelsOf says of the attempt.
func attemptOf(labels map[string]string) (nodeagent.Attempt, error) {
	number, err := strconv.Atoi(labels[labelNumber])
	if err != nil {
		return nodeagent.Attempt{}, types.Errorf(types.Internal, "read label %s: %w", labelNumber, err)
	}
	revision, err := strconv.ParseInt(labels[labelRevision], 10, 64)
	if err != nil {
		return nodeagent.Attempt{}, types.Errorf(types.Internal, "read label %s: %w", labelRevision, err)
	}
	return nodeagent.Attempt{
		Cluster:   labels[labelCluster],
		Node:      labels[labelNode],
		Namespace: labels[labelNamespace],
		Task:      labels[labelTask],
		Number:    number,
		Revision:  revision,
	}, nil
}

// timeOf reads a label that holds a time; zero when there is none.
func timeOf(labels map[string]string, key string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, labels[key])
	if err != nil {
		return time.Time{}
	}
	return t
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ours selects the containers of one node of one cluster.
func ours(cluster, node string) string {
	filter := fmt.Sprintf("labels.%q==%q", labelCluster, cluster)
	if node != "" {
		filter += fmt.Sprintf(",labels.%q==%q", labelNode, node)
	}
	return filter
}
