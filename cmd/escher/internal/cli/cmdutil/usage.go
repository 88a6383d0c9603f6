package cmdutil

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/types"
)

// usageWidth is the width to which usages of flags are wrapped.
const usageWidth = 100

// heading is the annotation of a flag: the heading above it.
const heading = "heading"

// Heading is a part of the flags of a command.
type Heading struct {
	Title string
	// Flags are their names, in the order of the help.
	Flags []string
}

// SetHeadings puts the flags of a command below headings. A flag that none of them names is below rest.
func SetHeadings(cmd *cobra.Command, rest string, headings ...Heading) {
	flags := cmd.Flags()
	for _, h := range headings {
		for i, name := range h.Flags {
			if err := flags.SetAnnotation(name, heading, []string{h.Title, fmt.Sprintf("%03d", i)}); err != nil {
				panic(err) // a defect, which every test of the command finds
			}
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[heading] == nil {
			_ = flags.SetAnnotation(f.Name, heading, []string{rest, f.Name}) // it is there
		}
	})
	titles := make([]string, len(headings))
	for i, h := range headings {
		titles[i] = h.Title
	}
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[heading] = strings.Join(titles, "\n")
}

// Unlisted returns the names of the flags that no heading names.
func Unlisted(cmd *cobra.Command) []string {
	var names []string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if at := f.Annotations[heading]; !f.Hidden && f.Name != "help" && (at == nil || at[1] == f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

// FlagSets returns the flags of a command below their headings, which are all below "" if it has none.
// Hidden flags are left out.
func FlagSets(cmd *cobra.Command) (titles []string, sets map[string]*pflag.FlagSet) {
	var all []*pflag.Flag
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			all = append(all, f)
		}
	})
	of := func(f *pflag.Flag) (title, place string) {
		if at := f.Annotations[heading]; at != nil {
			return at[0], at[1]
		}
		return "", f.Name
	}
	slices.SortStableFunc(all, func(a, b *pflag.Flag) int {
		_, x := of(a)
		_, y := of(b)
		return strings.Compare(x, y)
	})
	sets = make(map[string]*pflag.FlagSet)
	for _, f := range all {
		title, _ := of(f)
		if sets[title] == nil {
			sets[title] = pflag.NewFlagSet(title, pflag.ContinueOnError)
			sets[title].SortFlags = false
		}
		sets[title].AddFlag(f)
	}
	for title := range strings.SplitSeq(cmd.Annotations[heading], "\n") {
		if sets[title] != nil {
			titles = append(titles, title)
		}
	}
	return titles, sets
}

// PrintUsage prints how to write a command, its subcommands and its flags.
func PrintUsage(cmd *cobra.Command, out io.Writer) {
	fmt.Fprintf(out, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() && cmd.Runnable() {
		fmt.Fprintf(out, "  %s [command]\n", cmd.CommandPath())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(out, "\nAliases:\n  %s\n", cmd.NameAndAliases())
	}
	printCommands(cmd, out)
	titles, sets := FlagSets(cmd)
	for _, title := range titles {
		fmt.Fprintf(out, "\n%s:\n%s", First(title, "Flags"), sets[title].FlagUsagesWrapped(usageWidth))
	}
	if !cmd.HasParent() {
		fmt.Fprintf(out, "\nFlags of all commands:\n%s\nescher COMMAND --help has the flags of one, and examples.\n", cmd.PersistentFlags().FlagUsagesWrapped(usageWidth))
		return
	}
	fmt.Fprintln(out, "\nescher --help lists the flags of all commands, such as --namespace and --output.")
}

// printCommands lists the commands below one by their groups.
func printCommands(cmd *cobra.Command, out io.Writer) {
	list := func(title, group string) {
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group && sub.IsAvailableCommand() {
				if title != "" {
					fmt.Fprintf(out, "\n%s\n", title)
					title = ""
				}
				fmt.Fprintf(out, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	for _, group := range cmd.Groups() {
		list(group.Title, group.ID)
	}
	list("Commands:", "")
}

// Preset shows the default of a flag whose zero value means it. The flag refuses a written 0, which
// would mean something else than it says.
func Preset(flags *pflag.FlagSet, name, preset, remedy string) {
	f := flags.Lookup(name)
	f.DefValue = preset
	f.Value = &nonzero{Value: f.Value, name: name, remedy: remedy}
}

// nonzero is the value of a flag that refuses 0.
type nonzero struct {
	pflag.Value
	name, remedy string
}

// Set refuses 0.
func (n *nonzero) Set(text string) error {
	if err := n.Value.Set(text); err != nil {
		return err
	}
	if zero := n.String(); zero == "0" || zero == "0s" {
		return types.Errorf(types.Invalid, "%s: %s is out of range: %s", n.name, text, n.remedy)
	}
	return nil
}

// Former keeps the former name of a flag, hidden: it tells the new one.
func Former(cmd *cobra.Command, f *Factory, former, name string) {
	flags := cmd.Flags()
	alias := *flags.Lookup(name)
	alias.Name, alias.Shorthand, alias.Hidden, alias.Annotations = former, "", true, nil
	alias.Value = formerValue{alias.Value, func(text string) error { return flags.Set(name, text) }}
	alias.Deprecated = "it is named --" + name + " now; the former name goes with the next release"
	flags.AddFlag(&alias)
	flags.SetOutput(f.Err)
}

// formerValue is the value of a flag, which its former name sets, too: the flag counts as given.
type formerValue struct {
	pflag.Value
	set func(text string) error
}

func (v formerValue) Set(text string) error { return v.set(text) }

// FormerShorthand keeps the former shorthand of a flag, hidden: it tells the name.
func FormerShorthand(cmd *cobra.Command, f *Factory, name string) {
	flags := cmd.Flags()
	flags.Lookup(name).ShorthandDeprecated = "it goes with the next release: write --" + name
	flags.SetOutput(f.Err)
}
