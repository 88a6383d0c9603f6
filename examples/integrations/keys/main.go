// Command keys follows the statuses of the tasks of a namespace by etcd's own watch, and prints each change: its
// revision, the task and its phase. keys.py does the same in Python.
//
//	keys NAMESPACE FILE
//
// FILE keeps how far it was, and which keys there were: after a kill, the program goes on from there.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// position is how far the program was.
type position struct {
	// Revision is the one up to which all changes were printed, Keys are the keys at that revision.
	Revision int64           `json:"revision"`
	Keys     map[string]bool `json:"keys"`
}

// follower follows the keys with a prefix.
type follower struct {
	store        controlplane.Store
	prefix, file string
	at           position
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 3 {
		log.Fatal("usage: keys NAMESPACE FILE")
	}
	place, err := contexts.Find(contexts.Given{}, os.Getenv) // as the command line does
	if err != nil {
		log.Fatal(err)
	}
	store, err := place.Dial(ctx)
	if err != nil {
		log.Fatal(err)
	}
	f := follower{store: store, prefix: controlplane.Prefix(controlplane.Statuses, os.Args[1]), file: os.Args[2]}
	for err = f.load(); err == nil || types.Is(err, types.Unavailable) || types.Is(err, types.Compacted); err = f.follow(ctx) {
		if err != nil {
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
	if ctx.Err() == nil {
		log.Fatal(err)
	}
}

// follow prints changes until the watch ends.
func (f *follower) follow(ctx context.Context) error {
	if f.at.Revision == 0 {
		return f.compare(ctx)
	}
	for batch := range f.store.Watch(ctx, controlplane.WatchOptions{Prefix: f.prefix, From: f.at.Revision + 1}) {
		switch {
		case types.Is(batch.Err, types.Compacted): // the history since the last change is gone
			return f.compare(ctx)
		case batch.Err != nil:
			return batch.Err
		}
		for _, event := range batch.Events {
			f.see(event)
		}
		if len(batch.Events) > 0 {
			if err := f.save(batch.Revision); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// compare prints the difference between the present keys and those of the position.
func (f *follower) compare(ctx context.Context) error {
	all, revision, err := controlplane.ListAll(ctx, f.store, controlplane.ListOptions{Prefix: f.prefix})
	if err != nil {
		return err
	}
	there := make(map[string]bool)
	for _, kv := range all {
		there[kv.Key] = true
		if kv.ModRevision > f.at.Revision {
			f.see(controlplane.Event{KV: kv})
		}
	}
	for key := range f.at.Keys {
		if !there[key] {
			f.see(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: revision}, Delete: true})
		}
	}
	return f.save(revision)
}

// see prints a change, and notes the key.
func (f *follower) see(e controlplane.Event) {
	var status types.Status
	phase := "unreadable"
	switch {
	case e.Delete:
		phase = "removed"
	case controlplane.Read(e.KV, &status):
		phase = string(status.Phase)
	}
	if f.at.Keys[e.Key] = true; e.Delete {
		delete(f.at.Keys, e.Key)
	}
	fmt.Println(e.ModRevision, e.Key[len(f.prefix):], phase)
}

// load reads the position.
func (f *follower) load() error {
	f.at.Keys = make(map[string]bool)
	text, err := os.ReadFile(f.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &f.at)
}

// save writes the position.
func (f *follower) save(revision int64) error {
	f.at.Revision = revision
	text, err := json.Marshal(f.at)
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(f.file+".new", f.file)
}
