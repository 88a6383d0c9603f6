package dev

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// shimName is the program that containerd starts for each container.
const shimName = "containerd-shim-runc-v2"

// shimWait is how long a shim may take to end.
const shimWait = time.Second

// shim is the process of one.
type shim struct {
	pid         int
	address, id string
}

// endShims ends the shims of a containerd namespace that has no container left. One
// is forgotten by containerd when its client was killed while a container was being
// created or deleted; it waits for ever then.
func endShims(namespace string, log *zap.Logger) {
	// Those that have been told to end take a moment.
	for deadline := time.Now().Add(shimWait); len(shims(namespace)) > 0 && time.Now().Before(deadline); {
		<-time.After(removedEvery)
	}
	for _, s := range shims(namespace) {
		// The handle is of this process even if its number is used again; that
		// it is the one meant is looked at after it was opened.
		p, err := os.FindProcess(s.pid)
		if err != nil || !slices.Contains(shims(namespace), s) {
			continue
		}
		log.Warn("ending a shim that containerd has forgotten", zap.Int("pid", s.pid), zap.String("container", s.id))
		if err := p.Kill(); err != nil {
			log.Warn("shim", zap.Int("pid", s.pid), zap.Error(err))
		}
		// Its socket is named as shims name it, and nobody else removes it.
		name := sha256.Sum256([]byte(filepath.Join(s.address, namespace, s.id)))
		_ = os.Remove(filepath.Join("/run/containerd/s", hex.EncodeToString(name[:]))) // it may be gone
	}
}

// shims lists the shims of a containerd namespace.
func shims(namespace string) []shim {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // a good pattern has no error
	var found []shim
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(text), "\x00")
		if filepath.Base(args[0]) != shimName || flagOf(args, "-namespace") != namespace {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		found = append(found, shim{pid: pid, address: flagOf(args, "-address"), id: flagOf(args, "-id")})
	}
	return found
}

// flagOf returns the argument that follows a flag.
func flagOf(args []string, name string) string {
	i := slices.Index(args, name)
	if i < 0 || i+1 >= len(args) {
		return ""
	}
	return args[i+1]
}
