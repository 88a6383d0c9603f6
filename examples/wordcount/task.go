package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/escher"
)

// load stores a chunk of the text, the bytes from one offset to another, in the directory of its
// node, and announces it.
func load(ctx context.Context, chunk, name, from, to string) error {
	first, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return err
	}
	last, err := strconv.ParseInt(to, 10, 64)
	if err != nil {
		return err
	}
	text, err := os.Open(filepath.Join(textDir, name))
	if err != nil {
		return err
	}
	defer text.Close()
	if err := write(filepath.Join(dataDir, "chunk-"+chunk), io.NewSectionReader(text, first, last-first)); err != nil {
		return err
	}
	client, err := escher.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	// Policy, the first line: the data says where it is.
	return client.SetResource(ctx, "data-"+chunk, escher.Inf, escher.OnThisNode())
}

// serve lets other nodes read the directory of this node until it is stopped.
func serve(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("ESCHER_PORT_DATA"))
	if err != nil {
		return err
	}
	mine := filepath.Join(outDir, "address-"+os.Getenv("ESCHER_NODE"))
	if err := write(mine, strings.NewReader("http://"+listener.Addr().String()+"/")); err != nil {
		return err
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dataDir))}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// mapChunk counts the words of a chunk, read locally or from the node that has it. The counts stay
// on this node, a file for each reducer.
func mapChunk(ctx context.Context, run, chunk, reducers string) error {
	split, err := strconv.Atoi(reducers)
	if err != nil {
		return err
	}
	text, where, err := openChunk(ctx, chunk)
	if err != nil {
		return err
	}
	counts, err := countWords(text)
	if err := errors.Join(err, text.Close()); err != nil {
		return err
	}
	parts := make([]map[string]int, split)
	for i := range parts {
		parts[i] = make(map[string]int)
	}
	for word, n := range counts {
		h := fnv.New32a()
		_, _ = h.Write([]byte(word)) // a hash never fails
		parts[h.Sum32()%uint32(split)][word] = n
	}
	for i, part := range parts {
		if err := write(filepath.Join(dataDir, fmt.Sprintf("%s-%s-%d", run, chunk, i)), lines(part)); err != nil {
			return err
		}
	}
	return write(filepath.Join(outDir, run+"-mapped-"+chunk), strings.NewReader(os.Getenv("ESCHER_NODE")+" "+where))
}

// openChunk opens a chunk and says whether it is local or remote.
func openChunk(ctx context.Context, chunk string) (text io.ReadCloser, where string, err error) {
	file, err := os.Open(filepath.Join(dataDir, "chunk-"+chunk))
	if err == nil {
		return file, "local", nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	client, err := escher.Connect(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = client.Close() }()
	state, err := client.State(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, node := range state.Nodes {
		if _, ok := node.Get("data-" + chunk); ok {
			text, err = fetch(ctx, node.Name, "chunk-"+chunk)
			return text, "remote", err
		}
	}
	return nil, "", fmt.Errorf("chunk %s is nowhere", chunk)
}

// address returns where the directory of a node is served, once it is.
func address(ctx context.Context, node string) (string, error) {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		text, err := os.ReadFile(filepath.Join(outDir, "address-"+node))
		if !errors.Is(err, fs.ErrNotExist) {
			return string(text), err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-again.C:
		}
	}
}

// fetch reads a file of a node.
func fetch(ctx context.Context, node, name string) (io.ReadCloser, error) {
	server, err := address(ctx, node)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+name, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("fetch %s of %s: %s", name, node, res.Status), res.Body.Close())
	}
	return res.Body, nil
}

// countWords counts words: letters a to z, in lower case.
func countWords(r io.Reader) (map[string]int, error) {
	counts := make(map[string]int)
	var word []byte
	in := bufio.NewReaderSize(r, 1<<20)
	for {
		c, err := in.ReadByte()
		switch lower := c | 0x20; {
		case err == nil && lower >= 'a' && lower <= 'z':
			word = append(word, lower)
			continue
		case len(word) > 0:
			counts[string(word)]++
			word = word[:0]
		}
		if errors.Is(err, io.EOF) {
			return counts, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// reduce merges the counts of all mappers of a run for one reducer.
func reduce(ctx context.Context, run, part, chunks string) error {
	mappers, err := strconv.Atoi(chunks)
	if err != nil {
		return err
	}
	sum := make(map[string]int)
	for chunk := range mappers {
		mapped, err := os.ReadFile(filepath.Join(outDir, fmt.Sprintf("%s-mapped-%d", run, chunk)))
		if err != nil {
			return err
		}
		node, _, _ := strings.Cut(string(mapped), " ")
		counts, err := fetch(ctx, node, fmt.Sprintf("%s-%d-%s", run, chunk, part))
		if err != nil {
			return err
		}
		err = readCounts(counts, sum)
		if err := errors.Join(err, counts.Close()); err != nil {
			return err
		}
	}
	return write(filepath.Join(outDir, run+"-part-"+part), lines(sum))
}

// readCounts adds lines of "word count" to a sum.
func readCounts(r io.Reader, sum map[string]int) error {
	in := bufio.NewScanner(r)
	for in.Scan() {
		word, text, _ := strings.Cut(in.Text(), " ")
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		sum[word] += n
	}
	return in.Err()
}

// lines formats counts as lines of "word count", in order.
func lines(counts map[string]int) io.Reader {
	all := make([]string, 0, len(counts))
	for word, n := range counts {
		all = append(all, word+" "+strconv.Itoa(n)+"\n")
	}
	slices.Sort(all)
	return strings.NewReader(strings.Join(all, ""))
}

// write writes a file atomically.
func write(path string, content io.Reader) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err := errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
