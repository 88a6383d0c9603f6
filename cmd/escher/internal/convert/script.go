package convert

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// script is a batch script, in lines.
type script struct{ lines []string }

func newScript(text string) *script {
	return &script{strings.Split(strings.TrimRight(text, "\n"), "\n")}
}

// directives lists the lines with options of sbatch.
func (s *script) directives() (out []directive) {
	late := false
	for i, line := range s.lines {
		if rest, ok := strings.CutPrefix(line, "#SBATCH"); ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
			out = append(out, directive{i + 1, strings.TrimSpace(rest), late})
		} else if !isComment(line) {
			late = true
		}
	}
	return out
}

func isComment(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || line[0] == '#'
}

// stepStart matches the beginning of a line up to a command srun in it.
func stepStart() *regexp.Regexp {
	return regexp.MustCompile(`^(\s*|.*(?:[;&|({]\s*|\b(?:then|do|else|time|exec|nohup|!)\s+))srun(?:\s+|$)`)
}

// hasSteps reports whether srun starts programs.
func (s *script) hasSteps() bool {
	return slices.ContainsFunc(s.lines, func(line string) bool { return !isComment(line) && stepStart().MatchString(line) })
}

// containers takes the images and mounts that options of srun give.
func (s *script) containers(b *batch) {
	for _, line := range s.lines {
		if isComment(line) {
			continue
		}
		for _, word := range splitWords(line) {
			switch o, value, given := findOption(word); {
			case o == nil || !given || !strings.HasPrefix(word, "--container-"):
			case o.long == "container-image" && b.image == "", o.long == "container-mounts" && len(b.mounts) == 0, o.long == "container-workdir" && b.dir == "":
				o.apply(b, value)
			}
		}
	}
}

// body returns the program that runs the script.
func (s *script) body(b *batch, sh shape) (*object, error) {
	first := s.lines[0]
	var interpreter []string
	if line, ok := strings.CutPrefix(first, "#!"); ok {
		if interpreter = strings.Fields(line); len(interpreter) > 1 && path.Base(interpreter[0]) == "env" {
			interpreter = interpreter[1:]
		}
	}
	shell := len(interpreter) == 0 || strings.HasSuffix(interpreter[0], "sh")
	var out []string
	for i := 0; i < len(s.lines); i++ {
		line := s.lines[i]
		switch {
		case strings.HasPrefix(line, "#SBATCH"):
		case isComment(line) || !shell:
			out = append(out, line)
		default:
			from := i
			for strings.HasSuffix(line, "\\") && i+1 < len(s.lines) {
				i++
				line += "\n" + s.lines[i]
			}
			out = append(out, b.command(line, from+1, sh, !slices.ContainsFunc(s.lines[i+1:], func(line string) bool { return !isComment(line) })))
		}
	}
	text := strings.Join(out, "\n") + "\n"
	b.scope(text, sh)
	variables := b.variables(text, sh)
	if len(variables) > 0 && shell {
		at := 0
		if strings.HasPrefix(first, "#!") {
			at = 1
		}
		out = slices.Insert(out, at, variables...)
	} else {
		for _, v := range variables {
			name, value, _ := strings.Cut(strings.TrimPrefix(v, "export "), "=")
			b.add(0, "the variable "+name, "a task lacks it, and this program is no shell script: read %s instead", strings.TrimPrefix(value, "$"))
		}
	}
	text = strings.Trim(regexp.MustCompile(`\n{3,}`).ReplaceAllString(strings.Join(out, "\n"), "\n\n"), "\n") + "\n"
	b.meet(text, sh)
	return b.script(text, interpreter)
}

// scope notes what runs more often than in Slurm.
func (b *batch) scope(text string, sh shape) {
	setting := regexp.MustCompile(`(?m)^\s*(?:#.*|export .*|\w+=\S*|set .*|cd .*|)$`)
	commands := len(strings.Fields(setting.ReplaceAllString(strings.ReplaceAll(text, "\\\n", " "), ""))) > 0
	others := strings.Count(strings.TrimSpace(setting.ReplaceAllString(strings.ReplaceAll(text, "\\\n", " "), "")), "\n")
	switch {
	case !sh.gang() || !commands:
	case !sh.steps:
		b.add(0, "the script has no srun", "it runs in each of the %d tasks here, where Slurm runs it on the first node alone: guard what must run once by [ $ESCHER_INDEX = 0 ]", sh.count)
	case others > 0:
		b.add(0, "the commands without srun", "they run in each of the %d tasks here, where Slurm runs them on the first node alone: guard what must run once by [ $ESCHER_INDEX = 0 ]", sh.count)
	}
}

// command converts a command of the script, which may go over several lines.
func (b *batch) command(text string, line int, sh shape, last bool) string {
	if m := regexp.MustCompile(`^\s*(?:export\s+)?(MASTER_ADDR|MASTER_PORT)=`).FindStringSubmatch(text); m != nil && sh.gang() {
		b.add(line, m[1], "Escher sets it in each task of a gang, so that the line is a comment here")
		return "# " + strings.ReplaceAll(text, "\n", "\n# ")
	}
	if i := stepStart().FindStringSubmatchIndex(text); i != nil {
		var dropped []string
		rest := text[i[1]:]
		rest, dropped = b.stepOptions(rest)
		before := text[:i[3]]
		if last && strings.TrimSpace(before) == "" && !strings.ContainsAny(rest, ";&|") {
			before += "exec " // so that it gets the signals
		}
		if len(dropped) > 0 {
			b.dropped(line, "srun "+strings.Join(dropped, " "), "each task runs the program once, with all that the task requests")
		}
		if regexp.MustCompile(`(^|[^&>])&($|[^&>0-9])`).MatchString(rest) {
			b.add(line, "srun … &", "steps in the background run in each task: make each a job of its own")
		}
		text = before + rest
	} else if first, _, _ := strings.Cut(strings.TrimSpace(text), " "); missingProgram(first) != "" {
		b.add(line, first, "%s", missingProgram(first))
	}
	return text
}

// missingProgram says what to do instead of a program that is part of a cluster of Slurm.
func missingProgram(name string) string {
	switch name {
	case "module", "ml":
		return "an image has no modules: install the programs in it"
	case "sbatch", "scancel", "squeue", "sacct", "scontrol", "sinfo", "salloc", "sstat", "sbcast":
		return "a task has no programs of Slurm: it does such things by its socket, ESCHER_SOCKET"
	case "mpirun", "mpiexec":
		return "a task cannot start others: ESCHER_PEERS names them for a hostfile, if the image has an ssh server"
	}
	return ""
}

// stepOptions takes the options of srun from the beginning of a text, and lists those that are
// dropped.
func (b *batch) stepOptions(text string) (rest string, dropped []string) {
	space := regexp.MustCompile(`^(?:\s|\\\n)+`)
	word := regexp.MustCompile(`^(?:[^\s"'\\]|\\.|"[^"]*"|'[^']*')+`)
	for {
		text = text[len(space.FindString(text)):]
		at := word.FindString(text)
		if !strings.HasPrefix(at, "-") {
			return text, dropped
		}
		text = text[len(at):]
		o, _, given := findOption(unquoted(at))
		if o == nil && slices.Contains([]string{"-l", "-u", "-K", "-E"}, at) {
			continue // about the output, and the end of the others
		}
		if o != nil && o.value == needed && !given {
			text = text[len(space.FindString(text)):]
			value := word.FindString(text)
			at, text = at+" "+value, text[len(value):]
		}
		if o == nil || !strings.HasPrefix(o.long, "container-") && o.long != "export" {
			dropped = append(dropped, at)
		}
	}
}

// variables returns the lines that set the variables of Slurm which a script uses, and notes those
// that Escher lacks.
func (b *batch) variables(text string, sh shape) (out []string) {
	known := b.known(sh)
	seen := make(map[string]bool)
	text = regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(text, "")
	for _, name := range regexp.MustCompile(`\bSLURM[A-Z]*_[A-Z_]+\b`).FindAllString(text, -1) {
		if seen[name] {
			continue
		}
		seen[name] = true
		if value, ok := known[name]; ok {
			out = append(out, "export "+name+"="+value)
			continue
		}
		remedy := "take another variable: docs/distributed.md lists those of a task"
		if strings.HasSuffix(name, "NODELIST") {
			remedy = "ESCHER_PEERS has the addresses of all tasks, and MASTER_ADDR that of the first"
		}
		b.dropped(0, "the variable "+name, "%s", remedy)
	}
	return out
}

// known are the variables of Slurm with their values in a task.
func (b *batch) known(sh shape) map[string]string {
	number := strconv.Itoa
	index, count, id := "$ESCHER_INDEX", "$ESCHER_COUNT", "$ESCHER_JOB"
	v := map[string]string{
		"SLURM_JOB_ID": id, "SLURM_JOBID": id, "SLURM_JOB_NAME": b.name, "SLURM_JOB_NUM_NODES": number(sh.nodes), "SLURM_NNODES": number(sh.nodes),
		"SLURM_CPUS_PER_TASK": number(max(b.cpus, 1)), "SLURM_CPUS_ON_NODE": number(sh.cpus * sh.share), "SLURM_NTASKS_PER_NODE": number(sh.share),
		"SLURM_SUBMIT_DIR": "$PWD", "SLURM_TMPDIR": "/tmp", "SLURMD_NODENAME": "$ESCHER_NODE", "SLURM_RESTART_COUNT": "$((ESCHER_ATTEMPT - 1))",
		"SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "1", "SLURM_NPROCS": "1",
	}
	if sh.gpu != "" {
		v["SLURM_GPUS_ON_NODE"], v["SLURM_GPUS_PER_NODE"], v["SLURM_GPUS_PER_TASK"] = cmp.Or(gpusOf(b), sh.gpu), cmp.Or(gpusOf(b), sh.gpu), sh.gpu
	}
	if sh.gang() {
		v["SLURM_PROCID"], v["SLURM_NTASKS"], v["SLURM_NPROCS"], v["SLURM_NODEID"] = index, count, count, index
		if sh.share > 1 {
			v["SLURM_NODEID"] = "$((ESCHER_INDEX / " + number(sh.share) + "))"
		}
		if sh.share > 1 && sh.gpu == "" { // the devices of a task count from 0
			v["SLURM_LOCALID"] = "$((ESCHER_INDEX % " + number(sh.share) + "))"
		}
	} else if b.array != "" {
		v["SLURM_ARRAY_TASK_ID"], v["SLURM_ARRAY_TASK_COUNT"], v["SLURM_ARRAY_JOB_ID"] = index, count, id
	}
	return v
}

// gpusOf returns the GPUs of a node as text, empty if the script does not say.
func gpusOf(b *batch) string {
	if b.gpusPerNode == 0 {
		return ""
	}
	return strconv.Itoa(b.gpusPerNode)
}

// meet takes the port at which the tasks of a gang meet, if the script gives a number.
func (b *batch) meet(text string, sh shape) {
	m := regexp.MustCompile(`(?:MASTER_ADDR\}?"?:|master[-_]port[= ]|MASTER_PORT=)([0-9]{2,5})\b`).FindStringSubmatch(text)
	if m == nil || !sh.gang() {
		return
	}
	n, err := strconv.Atoi(m[1])
	switch {
	case err != nil || n > types.MaxPort:
	case sh.share > 1:
		b.add(0, "port "+m[1], "several tasks are on a node, so that each has a port of its own: use $MASTER_PORT")
	default:
		b.port = n
	}
}

// splitWords splits a line into words as a shell does, up to a comment.
func splitWords(text string) (words []string) {
	for _, word := range regexp.MustCompile(`(?:[^\s"'\\]|\\.|"[^"]*"|'[^']*')+`).FindAllString(text, -1) {
		if word[0] == '#' {
			break
		}
		words = append(words, unquoted(word))
	}
	return words
}

// unquoted returns a word of a shell without its quotes.
func unquoted(word string) string {
	var out strings.Builder
	quote := rune(0)
	escaped := false
	for _, r := range word {
		switch {
		case escaped:
			out.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case r == quote:
			quote = 0
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}
