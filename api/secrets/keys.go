package secrets

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

const (
	// keyBytes is the size of a key, saltBytes that of the salt before each sealed value, and idBytes that
	// of the id of a key.
	keyBytes  = 32
	saltBytes = 32
	idBytes   = 8
	// maxKeys bounds the keys of a file, and maxFile its bytes.
	maxKeys = 16
	maxFile = 4 << 10
)

// Keys seal and open secrets. The first key seals, and all of them open.
type Keys struct {
	all []key
}

// key is a key with its id, which tells nothing about it.
type key struct {
	id     string
	secret []byte
}

// MakeFile writes a new key into a file that does not exist yet. Precondition: it exists, or cannot be
// written.
func MakeFile(path string) error {
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // it never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return types.Errorf(types.Precondition, "make a secrets key: %s exists: what it seals is lost without it: give another path", path)
	case err != nil:
		return types.Errorf(types.Precondition, "make a secrets key: %w: give another path", err)
	}
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(secret) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return types.Errorf(types.Precondition, "make a secrets key: %w: give another path", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// Open is Load for a file that is made if there is none.
func Open(path string) (*Keys, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := MakeFile(path); err != nil {
			return nil, err
		}
	}
	return Load(path)
}

// Load reads the keys in a file: 32 bytes, or a line in base64 for each key. Only its owner, root or the user
// of this process, may have access to the file. Invalid: it has no keys. Precondition: it cannot be read, or
// others can read or change it.
func Load(path string) (*Keys, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe has no writer to wait for
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, types.Errorf(types.Precondition, "secrets-key: %w: make one with escher admin secrets-key --out %s", err, path)
	case err != nil:
		return nil, types.Errorf(types.Precondition, "secrets-key: %w: make it readable for this user", err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, types.Errorf(types.Precondition, "secrets-key: %s: %w: give another path", path, err)
	}
	if err := owned(path, st.Uid, os.Geteuid()); err != nil {
		return nil, err
	}
	if mode := st.Mode & 0o777; mode&0o077 != 0 {
		return nil, types.Errorf(types.Precondition, "secrets-key: %s has mode %04o, so other users may have read it: chmod 0600 it, or make another one", path, mode)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxFile {
		return nil, types.Errorf(types.Invalid, "secrets-key: %s is no file of keys: make one with escher admin secrets-key", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, types.Errorf(types.Precondition, "secrets-key: %w: make it readable for this user", err)
	}
	k, err := parse(text)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "secrets-key: %s: %w", path, err)
	}
	return k, nil
}

// owned returns an error unless root or the user of this process owns a file: another owner knows the keys,
// and can change them.
func owned(path string, owner uint32, user int) error {
	if owner == 0 || int(owner) == user {
		return nil
	}
	return types.Errorf(types.Precondition, "secrets-key: %s belongs to user %d, which may have read it: chown it to root or to user %d, or make another one", path, owner, user)
}

// parse returns the keys in the content of a file. The error quotes nothing of it.
func parse(text []byte) (*Keys, error) {
	if len(text) == keyBytes {
		return newKeys(text)
	}
	var secrets [][]byte
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil || len(secret) != keyBytes {
			return nil, types.Errorf(types.Invalid, "line %d is not %d bytes in base64: make a key with escher admin secrets-key", n, keyBytes)
		}
		secrets = append(secrets, secret)
	}
	return newKeys(secrets...)
}

// newKeys returns keys, of which the first seals.
func newKeys(secrets ...[]byte) (*Keys, error) {
	if len(secrets) == 0 || len(secrets) > maxKeys {
		return nil, types.Errorf(types.Invalid, "it has %d keys: give 1 to %d, the newest first", len(secrets), maxKeys)
	}
	k := new(Keys)
	for _, s := range secrets {
		id, err := hkdf.Key(sha256.New, s, nil, "escher secrets: id of a key", idBytes)
		if err != nil {
			return nil, types.Errorf(types.Internal, "derive the id of a key: %w", err)
		}
		k.all = append(k.all, key{id: hex.EncodeToString(id), secret: slices.Clone(s)})
	}
	return k, nil
}

// aead returns the cipher for one value: its key is derived from the salt, so that each key seals once and
// no number of values wears out the key of the server.
func (k key) aead(salt []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, k.secret, salt, "escher secrets: value", keyBytes)
	if err != nil {
		return nil, types.Errorf(types.Internal, "derive a key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make a cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make a cipher: %w", err)
	}
	return aead, nil
}

// bound is what a sealed value is bound to: it opens for this secret alone. No name has a zero byte.
func (k key) bound(ns, name string) []byte {
	return []byte("escher/v1\x00" + ns + "\x00" + name + "\x00" + k.id)
}

// Seal returns the stored form of values by their names.
func (k *Keys) Seal(ns, name string, values map[string][]byte) (types.Secret, error) {
	plain, err := json.Marshal(values)
	if err != nil {
		return types.Secret{}, types.Errorf(types.Internal, "seal secret %s: %w", name, err)
	}
	first := k.all[0]
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // it never fails
	aead, err := first.aead(salt)
	if err != nil {
		return types.Secret{}, err
	}
	s := types.Secret{Key: first.id, Sealed: string(aead.Seal(salt, nil, plain, first.bound(ns, name)))}
	for _, entry := range slices.Sorted(maps.Keys(values)) {
		s.Entries = append(s.Entries, types.SecretEntry{Name: entry, Size: int64(len(values[entry]))})
	}
	return s, nil
}

// Open returns the values of a secret. Precondition: no key here seals it. Internal: it is not what a
// server has stored under this name.
func (k *Keys) Open(ns, name string, s *types.Secret) (map[string][]byte, error) {
	at := slices.IndexFunc(k.all, func(x key) bool { return x.id == s.Key })
	if at < 0 {
		return nil, types.Errorf(types.Precondition, "open secret %s: the key %s that seals it is none of this server: add that to the file of --secrets-key, or set the secret again", name, types.Cut(s.Key, types.MaxName))
	}
	broken := types.Errorf(types.Internal, "open secret %s: its stored value is not what a server has sealed for it: set the secret again", name)
	if len(s.Sealed) < saltBytes {
		return nil, broken
	}
	aead, err := k.all[at].aead([]byte(s.Sealed[:saltBytes]))
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, []byte(s.Sealed[saltBytes:]), k.all[at].bound(ns, name))
	if err != nil {
		return nil, broken
	}
	values := make(map[string][]byte)
	if json.Unmarshal(plain, &values) != nil {
		return nil, broken
	}
	return values, nil
}
