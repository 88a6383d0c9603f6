package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func TestLogFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLogFile(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := l.Write([]byte("12345678\n")); err != nil {
			t.Fatal(err)
		}
	}
	l.close()
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if len(files) != 2 || total != 27 {
		t.Errorf("there are %d files of %d bytes, want 2 of 27", len(files), total)
	}
}

func TestFatalEndsGoroutineOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLogFile(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	hook := make(fatalHook, 1)
	log := etcdLogger(l, hook)
	ended := make(chan bool, 1)
	go func() {
		went := false
		defer func() { ended <- went }()
		log.Fatal("failed to save", zap.Error(errors.New("no space left")))
		went = true
	}()
	if <-ended {
		t.Error("the goroutine went on")
	}
	if why := <-hook; why != "failed to save: no space left" {
		t.Errorf("the reason is %q", why)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"msg":"failed to save"`) {
		t.Errorf("the log is %s", text)
	}
}
