package containerd

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// The labels of a container: everything known of it that containerd itself does not store.
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
	// labelCheck is the health check of the image, as JSON.
	labelCheck = "escher/check"
	// labelDevices are the names of its devices, separated by commas.
	labelDevices = "escher/devices"
	// labelStarted is the time just before the start of the process. Without it, the process never
	// ran.
	labelStarted = "escher/started"
	// labelLog is the path of the log, and labelOutput identifies its pipes. Both are missing
	// without a log.
	labelLog    = "escher/log"
	labelOutput = "escher/output"
	// labelInput is set if the process has an input.
	labelInput = "escher/input"
	// labelLost is when the runtime found that the started process is gone and its exit is unknown.
	labelLost = "escher/lost"
)

func labelsOf(c nodeagent.Container, image string, stop syscall.Signal, check *types.Check) map[string]string {
	labels := map[string]string{
		labelCluster:   c.Attempt.Cluster,
		labelNode:      c.Attempt.Node,
		labelNamespace: c.Attempt.Namespace,
		labelTask:      c.Attempt.Task,
		labelNumber:    strconv.Itoa(c.Attempt.Number),
		labelRevision:  strconv.FormatInt(c.Attempt.Revision, 10),
		labelRestart:   strconv.Itoa(c.Restart),
		labelImage:     image,
		// Other tools use this label.
		client.StopSignalLabel: strconv.Itoa(int(stop)),
	}
	if c.LogPath != "" {
		labels[labelLog] = c.LogPath
	}
	if c.Stdin {
		labels[labelInput] = "true"
	}
	// containerd's labels have at most 4 KiB: more device names than a machine has.
	const most = 4000
	if devices := strings.Join(c.Devices, ","); devices != "" && len(devices) < most {
		labels[labelDevices] = devices
	}
	if text, err := json.Marshal(check); check != nil && err == nil && len(text) < most {
		labels[labelCheck] = string(text)
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

// checkOf returns the health check of a container's image; nil means none.
func checkOf(labels map[string]string) *types.Check {
	check := new(types.Check)
	if text := labels[labelCheck]; text == "" || json.Unmarshal([]byte(text), check) != nil {
		return nil
	}
	return check
}

// restartOf returns the number of restarts before a container.
func restartOf(labels map[string]string) int {
	n, err := strconv.Atoi(labels[labelRestart])
	if err != nil { // It was made by a version without restarts.
		return 0
	}
	return n
}

// attemptOf decodes the labels of the attempt.
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

// timeOf decodes a label with a time; zero if there is none.
func timeOf(labels map[string]string, key string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, labels[key])
	if err != nil {
		return time.Time{}
	}
	return t
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ours returns the filter for the containers of a cluster and node; node "" means all nodes.
func ours(cluster, node string) string {
	filter := fmt.Sprintf("labels.%q==%q", labelCluster, cluster)
	if node != "" {
		filter += fmt.Sprintf(",labels.%q==%q", labelNode, node)
	}
	return filter
}
