package document

import (
	"time"

	"github.com/escher-sched/escher/api/secrets"
)

// Secret is the JSON form of a secret, without its values.
type Secret struct {
	Name     string        `json:"name"`
	Entries  []SecretEntry `json:"entries" nullable:"false" doc:"the names of its values; no operation shows values"`
	Set      time.Time     `json:"set" doc:"when it was set"`
	User     string        `json:"user,omitempty" doc:"the subject that set it"`
	Key      string        `json:"key,omitempty" doc:"the id of the key of the servers that seals it"`
	Revision int64         `json:"revision,omitempty" doc:"the revision of its last change"`
}

// SecretEntry is the name and the size of a value.
type SecretEntry struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// SecretOf returns the JSON form of a secret.
func SecretOf(s secrets.Stored) Secret {
	out := Secret{Name: s.Name, Entries: make([]SecretEntry, len(s.Entries)), Set: time.Unix(0, s.Secret.Set).UTC(), User: s.User, Key: s.Key, Revision: s.Revision}
	for i, e := range s.Entries {
		out.Entries[i] = SecretEntry{Name: e.Name, Bytes: e.Size}
	}
	return out
}
