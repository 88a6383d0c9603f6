package controlplane

import (
	"fmt"
	"slices"
	"strings"
)

// mirror is what a list-watch has delivered: the ModRevision of each key.
type mirror map[string]int64

// replace makes the mirror that of a listing and returns what changed.
func (m mirror) replace(kvs []KV, revision int64) []Event {
	var events []Event
	there := make(map[string]struct{}, len(kvs))
	for _, kv := range kvs {
		there[kv.Key] = struct{}{}
		if m[kv.Key] != kv.ModRevision {
			events = append(events, Event{KV: kv})
		}
	}
	var gone []string
	for key := range m {
		if _, ok := there[key]; !ok {
			gone = append(gone, key)
		}
	}
	slices.Sort(gone)
	for _, key := range gone {
		events = append(events, Event{KV: KV{Key: key, ModRevision: revision}, Delete: true})
	}
	m.apply(events)
	return events
}

// apply records events.
func (m mirror) apply(events []Event) {
	for _, e := range events {
		if e.Delete {
			delete(m, e.Key)
			continue
		}
		m[e.Key] = e.ModRevision
	}
}

// follows tells what is wrong with an event as the next one of its key: a store
// that skipped none deletes only what is there, and creates only what is not.
func (m mirror) follows(e Event) error {
	_, there := m[e.Key]
	switch created := e.CreateRevision == e.ModRevision; {
	case e.Delete && !there:
		return fmt.Errorf("%s is deleted at revision %d, but was never there", e.Key, e.ModRevision)
	case !e.Delete && created && there:
		return fmt.Errorf("%s is created at revision %d, but is there", e.Key, e.ModRevision)
	case !e.Delete && !created && !there:
		return fmt.Errorf("%s is changed at revision %d, but was never there", e.Key, e.ModRevision)
	}
	return nil
}

// check validates a batch with events as the next one of the watch.
func (l *listWatch) check(batch Batch) error {
	if batch.Revision <= l.seen {
		return fmt.Errorf("events of revision %d came after revision %d", batch.Revision, l.seen)
	}
	// Large batches are rare, and a map for each of the small ones costs more
	// than it finds.
	keys := make([]string, 0, len(batch.Events))
	for _, e := range batch.Events {
		if e.ModRevision != batch.Revision {
			return fmt.Errorf("%s of revision %d came with revision %d", e.Key, e.ModRevision, batch.Revision)
		}
		if !strings.HasPrefix(e.Key, l.opts.Prefix) {
			return fmt.Errorf("%s is not below the prefix", e.Key)
		}
		if !l.skips(e.Key) {
			if err := l.delivered.follows(e); err != nil {
				return err
			}
		}
		keys = append(keys, e.Key)
	}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != len(batch.Events) {
		return fmt.Errorf("revision %d has two events of one key", batch.Revision)
	}
	return nil
}

func (l *listWatch) skips(key string) bool { return l.opts.Skip != nil && l.opts.Skip(key) }

// unskipped returns the events that are not left out, all of them uncopied.
func (l *listWatch) unskipped(events []Event) []Event {
	if l.opts.Skip == nil {
		return events
	}
	var kept []Event
	for _, e := range events {
		if !l.opts.Skip(e.Key) {
			kept = append(kept, e)
		}
	}
	return kept
}
