// Package contexts finds the cluster that a program is to use: by flags, the environment, the task
// in which it runs, or a context. Contexts are clusters by name, in a file of the user.
package contexts

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// File is the content of the file.
type File struct {
	// Current is the default context.
	Current  string             `json:"current,omitempty"`
	Contexts map[string]Context `json:"contexts,omitempty"`
}

// Context is the address of a cluster: its server, else its endpoints, else its directory.
type Context struct {
	etcdstore.Address `json:",inline"`
	// Server is the address of the HTTP API, and Token the token for it. The authorities of its
	// certificate are in CACert.
	Server string `json:"server,omitempty"`
	Token  string `json:"token,omitempty"`
	// Login renews the token; nil for one that nothing renews.
	Login     *Login `json:"login,omitempty"`
	Dir       string `json:"dir,omitempty"`
	Namespace string `json:"namespace,omitempty"`
}

// Login is a login at an issuer of OpenID Connect.
type Login struct {
	Issuer   string `json:"issuer"`
	ClientID string `json:"clientID"`
	// CA is the file of the authorities of its certificate; empty means the system's.
	CA string `json:"ca,omitempty"`
	// Renewal is the token that renews; empty if the issuer gave none. Expires is when the context's ends.
	Renewal string    `json:"renewal,omitempty"`
	Expires time.Time `json:"expires"`
}

// Path returns the path of the file: in XDG_CONFIG_HOME, else in ~/.config; empty if neither is
// known.
func Path(getenv func(string) string) string {
	base := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) { // its specification says to ignore it then
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "escher", "config.yaml")
}

// Load reads the file. A missing file is empty.
func Load(path string) (File, error) {
	var f File
	if path == "" {
		return f, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, &f)
	}
	if err != nil {
		return File{}, types.Errorf(types.Invalid, "read contexts: %s: %w: correct the file, or remove it", path, err)
	}
	if _, ok := f.Contexts[f.Current]; f.Current != "" && !ok {
		return File{}, types.Errorf(types.Invalid, "read contexts: %s: current: there is no context %q: correct the file, or remove it", path, f.Current)
	}
	return f, nil
}

// Save replaces the file atomically. Only its owner can read it.
func (f File) Save(path string) error {
	if path == "" {
		return types.Errorf(types.Precondition, "save contexts: neither XDG_CONFIG_HOME nor HOME is set: set one")
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return types.Errorf(types.Internal, "save contexts: %w", err)
	}
	if err := replace(path, text); err != nil {
		return types.Errorf(types.Precondition, "save contexts: %w: make %s writable", err, filepath.Dir(path))
	}
	return nil
}

// replace replaces a file atomically, so that no program reads half of it.
func replace(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".config-*") // readable only by its owner
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// Change changes the file while no other process does: the token that renews a login counts once.
func Change(ctx context.Context, path string, change func(*File) error) error {
	if path == "" {
		return File{}.Save(path)
	}
	unlock, err := lock(ctx, path+".lock")
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }() // the end of the process does it, too
	f, err := Load(path)
	if err != nil {
		return err
	}
	if f.Contexts == nil {
		f.Contexts = make(map[string]Context)
	}
	if err := change(&f); err != nil {
		return err
	}
	return f.Save(path)
}

// lockEvery is the pause between attempts to lock the file.
const lockEvery = 20 * time.Millisecond

// lock locks a file that it makes, and returns what unlocks it.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		}
	}
	if err != nil {
		return nil, types.Errorf(types.Precondition, "save contexts: %w: make %s writable", err, filepath.Dir(path))
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f.Close, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(types.Errorf(types.Precondition, "lock %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-time.After(lockEvery):
		}
	}
}

// Get returns a context by its name. NotFound: there is none.
func (f File) Get(name string) (Context, error) {
	c, ok := f.Contexts[name]
	if ok {
		return c, nil
	}
	if len(f.Contexts) == 0 {
		return c, types.Errorf(types.NotFound, "there is no context %q: make it with escher context set %s --endpoints HOST:PORT", name, name)
	}
	return c, types.Errorf(types.NotFound, "there is no context %q: there is %s", name, strings.Join(f.Names(), ", "))
}

// Names lists the contexts.
func (f File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }
