package accounting

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestFileIsChecked: a recorder refuses a file that is none, or of a later version.
func TestFileIsChecked(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"text": func(path string) error {
			return os.WriteFile(path, []byte("this is no database, and long enough to be one"), 0o600)
		},
		"later": func(path string) error {
			db, err := openFile(t.Context(), path, prepare)
			if err != nil {
				return err
			}
			defer db.Close() //nolint:errcheck // it was only read
			_, err = db.ExecContext(t.Context(), "PRAGMA user_version = 3")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a b?.db")
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			if _, err := openFile(t.Context(), path, prepare); !types.Is(err, types.Precondition) {
				t.Errorf("it is opened: %v", err)
			}
		})
	}
	if _, err := (&Recorder{}).History(t.Context(), Filter{}, 1, ""); !types.Is(err, types.Unavailable) {
		t.Errorf("a recorder that does not run: %v", err)
	}
}

// TestFileIsMigrated: a file of version 1 keeps its records, and its recorder goes on without a gap.
func TestFileIsMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := openFile(t.Context(), path, prepare)
	if err != nil {
		t.Fatal(err)
	}
	if err := execute(t.Context(), db, "ALTER TABLE progress DROP COLUMN epoch; UPDATE progress SET revision = 7; PRAGMA user_version = 1"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if db, err = openFile(t.Context(), path, prepare); err != nil {
			t.Fatal(err)
		}
		r := &Recorder{Store: memstore.New()}
		if err := errors.Join(r.begin(t.Context(), db), db.Close()); err != nil || r.Recorded() != 7 || r.missed != 0 {
			t.Errorf("recorded up to %d, missed since %d: %v", r.Recorded(), r.missed, err)
		}
	}
}
