package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/secret"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/top"
	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

const completionHelp = `Prints a script with which a shell completes commands, flags, and the present names of
tasks, jobs, nodes, reservations, resources and contexts.

  source <(escher completion bash)      in ~/.bashrc; needs bash-completion
  source <(escher completion zsh)       in ~/.zshrc, after compinit
  escher completion fish | source       in ~/.config/fish/config.fish`

// newCompletion returns the command that prints the completion of a shell.
func newCompletion(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print the completion script of a shell",
		Long:      completionHelp,
		Args:      cmdutil.Exactly("SHELL"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(f.Out, true)
			case "zsh":
				return root.GenZshCompletion(f.Out)
			case "fish":
				return root.GenFishCompletion(f.Out, true)
			}
			return types.Errorf(types.Invalid, "SHELL: %q is not supported: use bash, zsh or fish", args[0])
		},
	}
}

// completions completes words from the objects in the cluster.
type completions struct{ *cmdutil.Factory }

// completer returns completions of a word.
type completer func(ctx context.Context, word string) []string

// How long completion may take, and how many names it offers.
const (
	completeWithin = 700 * time.Millisecond
	completeMost   = 200
)

// addCompletion adds completion to root and all commands below it: of arguments by the words in
// capitals in their usage, of flags by their names.
func addCompletion(f *cmdutil.Factory, root *cobra.Command) {
	c := completions{f}
	c.add(root, c.flagCompleters())
}

// add adds completion to the commands below root, and to the persistent flags of root.
func (f completions) add(root *cobra.Command, byFlag map[string]completer) {
	for _, cmd := range root.Commands() {
		f.add(cmd, byFlag)
		if args := f.argCompleters(cmd.Use); len(args.each) > 0 && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = args.complete
		}
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) { register(cmd, flag, byFlag) })
	}
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) { register(root, flag, byFlag) })
}

// register adds completion to a flag, unless it has one.
func register(cmd *cobra.Command, flag *pflag.Flag, byFlag map[string]completer) {
	complete := byFlag[flag.Name]
	if complete == nil {
		complete = byFlag[flag.Value.Type()]
	}
	if complete == nil {
		return
	}
	_ = cmd.RegisterFlagCompletionFunc(flag.Name, // fails if it has one
		func(cmd *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return offer(cmd.Context(), complete, word)
		})
}

// offer completes a word in time, or not at all.
func offer(ctx context.Context, complete completer, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	words := slices.DeleteFunc(complete(ctx, word), func(w string) bool { return !strings.HasPrefix(w, word) })
	directive := cobra.ShellCompDirectiveNoFileComp
	if len(words) == 1 && strings.ContainsAny(words[0][len(words[0])-1:], "=:/") {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return words, directive
}

// argCompleter completes the argument at one place.
type argCompleter struct {
	any []completer
	// files reports whether it may also be the path of a file.
	files bool
}

// argCompletion completes the arguments of one command.
type argCompletion struct {
	each []argCompleter
	// repeats reports whether the last one may be repeated.
	repeats bool
}

// argCompleters reads a usage line: NAME, NAME..., A|B, [NAME], up to its flags.
func (f completions) argCompleters(use string) argCompletion {
	var a argCompletion
	for i, word := range strings.Fields(use) {
		word = strings.Trim(word, "[]")
		if strings.HasPrefix(word, "-") {
			break
		}
		if i == 0 {
			continue
		}
		word, a.repeats = strings.CutSuffix(word, "...")
		var arg argCompleter
		for kind := range strings.SplitSeq(word, "|") {
			complete, files := f.completerOf(kind)
			arg.files = arg.files || files
			if complete != nil {
				arg.any = append(arg.any, complete)
			}
		}
		a.each = append(a.each, arg)
	}
	return a
}

// words returns completions of a word.
func (a argCompleter) words(ctx context.Context, word string) []string {
	var all []string
	for _, complete := range a.any {
		all = append(all, complete(ctx, word)...)
	}
	return all
}

// complete completes the next argument.
func (a argCompletion) complete(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	at := len(args)
	if a.repeats && at >= len(a.each) {
		at = len(a.each) - 1
	}
	if at >= len(a.each) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words, directive := offer(cmd.Context(), a.each[at].words, word)
	if a.each[at].files && len(words) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(args, w) }), directive
}

// completerOf returns the completer of an argument by its name in a usage line, nil for none, and
// whether it may be a file.
func (f completions) completerOf(kind string) (c completer, files bool) {
	switch kind {
	case "TASK":
		return f.ids(controlplane.Tasks), false
	case "JOB":
		return f.ids(controlplane.Jobs), false
	case "RESERVATION":
		return f.ids(controlplane.Reservations), false
	case "NODE":
		return f.ids(controlplane.Nodes), false
	case "POLICY":
		return f.declared("", ""), false
	case "KIND":
		return words(render.SortedKeys(library.KnownPolicies())...), false
	case "FIELD":
		return func(_ context.Context, word string) []string {
			return manifest.ExplainPaths(word, library.KnownPolicies())
		}, false
	case "CONTEXT":
		return f.contextNames, false
	case "SECRET":
		return f.secretNames, false
	case "RESOURCE":
		return f.resourceNames, false
	case "KEY":
		return f.keys, false
	case "SRC", "DST":
		return f.pathsIn, true
	case "FILE", "BINARY", "PATH":
		return nil, true
	}
	if strings.ToLower(kind) == kind && !strings.HasPrefix(kind, "-") { // a literal word
		return words(kind), false
	}
	return nil, false
}

// pathsIn completes the task at the beginning of a path in it.
func (f completions) pathsIn(ctx context.Context, word string) []string {
	ids := f.ids(controlplane.Tasks)(ctx, word)
	for i := range ids {
		ids[i] += ":"
	}
	return ids
}

// flagCompleters returns the completers of flag values, by the names of flags or the types of their
// values.
func (f completions) flagCompleters() map[string]completer {
	var formats []string
	for _, format := range table.Formats() {
		formats = append(formats, string(format))
	}
	all := map[string]completer{
		"node": f.ids(controlplane.Nodes), "job": f.ids(controlplane.Jobs), "reservation": f.ids(controlplane.Reservations),
		cmdutil.TaskLabels: f.labels(controlplane.Tasks), cmdutil.NodeLabels: f.labels(controlplane.Nodes),
		"context": f.contextNames, "namespace": f.namespaceNames, "output": words(formats...),
		"color":        words(string(cmdutil.ColorAuto), string(cmdutil.ColorAlways), string(cmdutil.ColorNever)),
		"request":      f.amounts,
		"gpu-topology": words(string(types.LinkedDevices), string(types.OneNUMA)),
		"until":        words("ended", "healthy", "running", "bound"),
		"secret":       f.secretNames,
		"order":        words(string(manifest.StopFirst), string(manifest.StartFirst)),
		"sort":         words(top.TopSorts()...),
		"lifetime":     words(string(types.OfTask), string(types.OfSession), string(types.OfReservation), string(types.OfJob), string(types.OfPolicy)),
	}
	maps.Copy(all, f.policyCompleters())
	return all
}

// secretNames completes to the names of secrets.
func (f completions) secretNames(ctx context.Context, _ string) []string {
	return secret.Names(ctx, f.Factory)
}

// words completes to one of these.
func words(all ...string) completer {
	return func(context.Context, string) []string { return slices.Clone(all) }
}

// ids completes to the ids of a kind.
func (f completions) ids(kind controlplane.Kind) completer {
	return func(ctx context.Context, word string) []string {
		client, err := f.Client(ctx)
		if err != nil {
			return nil // no errors while typing
		}
		ids, _ := client.IDs(ctx, kind, word, completeMost)
		return ids
	}
}

// labels completes to the labels of some tasks of the namespace, or of nodes.
func (f completions) labels(kind controlplane.Kind) completer {
	return func(ctx context.Context, _ string) []string {
		client, err := f.Client(ctx)
		if err != nil {
			return nil // no errors while typing
		}
		prefix := controlplane.Prefix(kind)
		if kind == controlplane.Tasks {
			prefix = controlplane.Prefix(kind, client.Namespace())
		}
		page, err := client.Store().List(ctx, controlplane.ListOptions{Prefix: prefix, Limit: completeMost})
		if err != nil {
			return nil
		}
		var all []string
		for _, kv := range page.KVs {
			var t types.Task
			var n types.Node
			if kind == controlplane.Tasks && controlplane.Read(kv, &t) || kind == controlplane.Nodes && controlplane.Read(kv, &n) {
				for _, l := range append(t.Labels, n.Labels...) {
					all = append(all, l.Name+"="+l.Value)
				}
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
}

func (f completions) contextNames(context.Context, string) []string {
	file, _ := contexts.Load(contexts.Path(f.Getenv))
	return file.Names()
}

// namespaceNames completes to namespaces with tasks or settings.
func (f completions) namespaceNames(ctx context.Context, _ string) []string {
	store, err := f.Store(ctx)
	if err != nil {
		return nil
	}
	names := []string{f.Namespace()}
	for _, kind := range []controlplane.Kind{controlplane.Namespaces, controlplane.Jobs, controlplane.Reservations, controlplane.Tasks} {
		page, err := store.List(ctx, controlplane.ListOptions{Prefix: controlplane.Prefix(kind), Limit: completeMost, KeysOnly: true})
		if err != nil {
			return nil
		}
		for _, kv := range page.KVs {
			if k, ok := controlplane.Parse(kv.Key); ok {
				names = append(names, k.Namespace)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// keys completes a key to the end of its next segment.
func (f completions) keys(ctx context.Context, word string) []string {
	store, err := f.Store(ctx)
	if err != nil {
		return nil
	}
	root := controlplane.Root
	if strings.HasPrefix(word, "/") {
		root = ""
	}
	var all []string
	opts := controlplane.ListOptions{Prefix: root + word, Limit: 1, KeysOnly: true}
	for len(all) < completeMost {
		page, err := store.List(ctx, opts)
		if err != nil || len(page.KVs) == 0 {
			break
		}
		next := strings.TrimPrefix(page.KVs[0].Key, root)
		opts.After = page.KVs[0].Key
		if end := strings.IndexByte(next[len(word):], '/'); end >= 0 {
			next = next[:len(word)+end+1]
			opts.After = root + next + "\xff" // after all keys below it
		}
		all = append(all, next)
	}
	return all
}

// resourceNames completes to the ephemeral resources of the namespace.
func (f completions) resourceNames(ctx context.Context, _ string) []string {
	client, err := f.Client(ctx)
	if err != nil {
		return nil
	}
	page, err := client.Store().List(ctx, controlplane.ListOptions{
		Prefix: controlplane.Prefix(controlplane.Resources, client.Namespace()), Limit: completeMost, KeysOnly: true,
	})
	if err != nil {
		return nil
	}
	var names []string
	for _, kv := range page.KVs {
		if k, ok := controlplane.Parse(kv.Key); ok {
			names = append(names, k.Name)
		}
	}
	return slices.Compact(names)
}

// amounts completes the name of a request, up to its amount.
func (f completions) amounts(ctx context.Context, word string) []string {
	names := append(f.resourceNames(ctx, word), string(types.CPU), string(types.Memory), string(types.GPU))
	for i := range names {
		names[i] += "="
	}
	return names
}
