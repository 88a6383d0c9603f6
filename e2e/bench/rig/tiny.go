package rig

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"

	"github.com/escher-sched/escher/types"
)

// The smallest possible programs, so that the measurement covers only what surrounds them: "true"
// ends at once with 0, "pause" never.

// tinyCode returns the machine code of both.
func tinyCode() (ends, pauses []byte, machine elf.Machine, err error) {
	switch runtime.GOARCH {
	case "amd64":
		ends = []byte{0x31, 0xff, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05}   // exit(0)
		pauses = []byte{0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7} // again: pause(); goto again
		return ends, pauses, elf.EM_X86_64, nil
	case "arm64":
		ends = []byte{0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4} // exit(0)
		// again: ppoll(0, 0, 0, 0, 0); goto again
		pauses = []byte{
			0, 0, 0x80, 0xd2, 0x01, 0, 0x80, 0xd2, 0x02, 0, 0x80, 0xd2, 0x03, 0, 0x80, 0xd2, 0x04, 0, 0x80, 0xd2,
			0x28, 0x09, 0x80, 0xd2, 0x01, 0, 0, 0xd4, 0xf9, 0xff, 0xff, 0x17,
		}
		return ends, pauses, elf.EM_AARCH64, nil
	}
	return nil, nil, 0, types.Errorf(types.Precondition, "bench: there are no programs to run on %s: use amd64 or arm64", runtime.GOARCH)
}

// TinyFiles writes both programs into dir, and returns the files of an image: paths within it, with
// the local paths.
func TinyFiles(dir string) (map[string]string, error) {
	ends, pauses, machine, err := tinyCode()
	if err != nil {
		return nil, err
	}
	files := make(map[string]string)
	for name, code := range map[string][]byte{"true": ends, "pause": pauses} {
		path := filepath.Join(dir, name)
		if err := writeTiny(path, machine, code); err != nil {
			return nil, err
		}
		files["/bin/"+name] = path
	}
	return files, nil
}

const (
	tinyBase   = 0x400000
	headerSize = 64
	progSize   = 56
)

// writeTiny writes a static program with that code.
func writeTiny(path string, machine elf.Machine, code []byte) error {
	size := uint64(headerSize + progSize + len(code))
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Entry: tinyBase + headerSize + progSize, Phoff: headerSize, Ehsize: headerSize, Phentsize: progSize, Phnum: 1,
	}
	program := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: tinyBase, Paddr: tinyBase,
		Filesz: size, Memsz: size, Align: 0x1000,
	}
	var out bytes.Buffer
	for _, part := range []any{header, program, code} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			return types.Errorf(types.Internal, "write %s: %w", path, err)
		}
	}
	if err := os.WriteFile(path, out.Bytes(), 0o755); err != nil {
		return types.Errorf(types.Precondition, "write %s: %w", path, err)
	}
	return nil
}
