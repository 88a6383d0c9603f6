// Package auth holds the commands about users, tokens and rights.
package auth

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
	"github.com/escher-sched/escher/types/rights"
)

const authHelp = `Gives users and programs rights, and tokens that authenticate them. The first
administrator is root on the machine of a server, by its Unix socket.

  escher auth token create --for user:alice --life 720h     a token, printed once
  escher auth grant lab --to user:alice --role member --in lab
  escher auth can-i write tasks -n lab
  escher auth ls
  escher auth revoke lab
  escher apply -f rights.yaml                               rights from a file

A role is viewer (reads), member (also runs and changes), operator (also changes nodes and
images) or administrator (also gives rights, tokens and quotas).`

// NewAuth returns the commands about rights and tokens.
func NewAuth(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Give users and programs rights and tokens",
		Long:  authHelp,
		Args:  cmdutil.Exactly(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWhoAmI(f), newCanI(f), newGrant(f), newRevoke(f), newLs(f), newToken(f))
	return cmd
}

// identity is the answer to whoami.
type identity struct {
	Subject    string     `json:"subject"`
	Groups     []string   `json:"groups,omitempty"`
	Token      string     `json:"token,omitempty"`
	Role       string     `json:"role,omitempty"`
	Namespaces []string   `json:"namespaces,omitempty"`
	Expires    *time.Time `json:"expires,omitempty"`
	Root       bool       `json:"root,omitempty"`
}

// write writes the identity as text.
func (i identity) write(w io.Writer) error {
	expires := ""
	if i.Expires != nil {
		expires = i.Expires.Format(time.RFC3339)
	}
	root := ""
	if i.Root {
		root = "every right, as an administrator of the machine of the server"
	}
	for _, line := range [][2]string{
		{"subject", issued.SubjectText(i.Subject)}, {"groups", strings.Join(issued.Each(i.Groups, issued.Text), ", ")}, {"token", i.Token}, {"expires", expires},
		{"at most", i.Role}, {"only in", strings.Join(i.Namespaces, ", ")}, {"rights", root},
	} {
		if line[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-9s %s\n", line[0]+":", line[1]); err != nil {
			return err
		}
	}
	return nil
}

func newWhoAmI(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show as whom the server knows you",
		Long: `Shows as whom the server knows you, with the bounds and the end of your token.

  escher auth whoami`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.API(cmd.Context())
			if err != nil {
				return err
			}
			var me identity
			if err := c.Get(cmd.Context(), "/v1/whoami", nil, &me); err != nil {
				return err
			}
			return f.Show(me, me.Subject, me.write)
		},
	}
}

func newCanI(f *cmdutil.Factory) *cobra.Command {
	cluster := false
	cmd := &cobra.Command{
		Use:   "can-i VERB KIND",
		Short: "Tell whether you have a right",
		Long: `Tells whether you have a right in the namespace, and which one is missing. It exits with
10 if you have not.

  escher auth can-i write tasks -n lab
  escher auth can-i write nodes --cluster

Verbs are ` + words(rights.Verbs()) + `. Kinds are ` + words(rights.Kinds()[:8]) + `,
` + words(rights.Kinds()[8:]) + `.`,
		Args: cmdutil.Exactly("VERB", "KIND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			need, err := rights.ParseNeed(args[0] + " " + args[1])
			if err != nil {
				return types.Errorf(types.Invalid, "right: %w", err)
			}
			ns := f.Namespace()
			if cluster {
				ns = ""
			}
			if err := f.May(cmd.Context(), need, ns); err != nil {
				return fmt.Errorf("no: %w", err)
			}
			fmt.Fprintln(f.Out, "yes")
			return nil
		},
	}
	cmd.Flags().BoolVar(&cluster, "cluster", false, "ask about the cluster instead of a namespace")
	return cmd
}

// words joins names with commas.
func words[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, x := range all {
		texts[i] = string(x)
	}
	return strings.Join(texts, ", ")
}

func newGrant(f *cmdutil.Factory) *cobra.Command {
	var to, allow, in []string
	var role string
	everywhere := false
	cmd := &cobra.Command{
		Use:   "grant NAME --to SUBJECT --role ROLE --in NAMESPACE",
		Short: "Give subjects a role in namespaces",
		Long: `Gives subjects a role, or parts of one, in namespaces or everywhere. The right has a name,
by which it is changed and removed: a second grant of the same name replaces the first.
You give no more than you have. Users and groups of an issuer have the prefix oidc:.

  escher auth grant lab --to user:alice,group:ml --role member --in lab
  escher auth grant team --to group:oidc:ml,user:oidc:bob@example.org --role viewer --in lab
  escher auth grant monitor --to service:monitor --allow 'read tasks' --everywhere`,
		Args: cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if everywhere {
				in = append(in, types.Everywhere)
			}
			to = issued.Each(to, issued.Subject)
			r := types.Right{Subjects: to, Role: rights.Role(role), Allow: allow, Namespaces: in}
			if err := r.Validate(); err != nil { // before anything is sent
				return err
			}
			c, err := f.API(cmd.Context())
			if err != nil {
				return err
			}
			body := map[string]any{"subjects": to, "role": role, "allow": allow, "namespaces": in}
			if err := c.Do(cmd.Context(), http.MethodPut, "/v1/rights/"+url.PathEscape(args[0]), body, nil); err != nil {
				return err
			}
			fmt.Fprintln(f.Out, args[0])
			return nil
		},
	}
	set := cmd.Flags()
	set.StringSliceVar(&to, "to", nil, "subjects that get it: user:NAME, group:NAME or service:NAME, with commas between")
	set.StringVar(&role, "role", "", "viewer, member, operator or administrator")
	set.StringSliceVar(&allow, "allow", nil, "a verb and a kind, such as \"read tasks\", with or without a role")
	set.StringSliceVar(&in, "in", nil, "namespaces in which it applies, with commas between")
	set.BoolVar(&everywhere, "everywhere", false, "apply it to the cluster and all namespaces")
	return cmd
}

func newRevoke(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME...",
		Short: "Remove rights by their names",
		Long: `Removes rights by their names. Open requests that need them end within moments.

  escher auth revoke lab`,
		Args: cmdutil.AtLeastOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return remove(cmd, f, "/v1/rights/", args)
		},
	}
}

// remove deletes objects of the API by their names, and prints these.
func remove(cmd *cobra.Command, f *cmdutil.Factory, path string, names []string) error {
	c, err := f.API(cmd.Context())
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.Do(cmd.Context(), http.MethodDelete, path+url.PathEscape(name), nil, nil); err != nil {
			return err
		}
		fmt.Fprintln(f.Out, name)
	}
	return nil
}
