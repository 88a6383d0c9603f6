package auth

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/document"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
)

func newToken(f *cmdutil.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke tokens",
		Long: `Makes, lists and revokes tokens. The bearer of a token is its subject, until it expires or
is revoked. Clusters store no token, only a hash of it.

  escher auth token create --for user:alice
  escher auth token ls
  escher auth token revoke k3v9p2m4x7qa`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreate(f), newTokenLs(f), newTokenRevoke(f))
	return cmd
}

func newTokenCreate(f *cmdutil.Factory) *cobra.Command {
	var subject, role, note string
	var groups, only []string
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token, and print it once",
		Long: `Makes a token, and prints it: it is not shown again. An administrator makes one for any
subject. Others make some for themselves, with bounds no wider and an end no later than
those of their own.

  escher auth token create --for user:alice --note laptop
  escher auth token create --for service:ci --group builders --life 24h
  escher auth token create --role viewer --only lab --life 1h`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.API(cmd.Context())
			if err != nil {
				return err
			}
			body := map[string]any{"subject": subject, "groups": groups, "role": role, "namespaces": only, "note": note}
			if life != 0 {
				body["life"] = life.String()
			}
			var made struct{ ID, Token string }
			if err := c.Do(cmd.Context(), http.MethodPost, "/v1/tokens", body, &made); err != nil {
				return err
			}
			f.Tell("token %s: keep it: it is not shown again", made.ID)
			fmt.Fprintln(f.Out, made.Token)
			return nil
		},
	}
	set := cmd.Flags()
	set.StringVar(&subject, "for", "", "its subject, user:NAME, service:NAME or, for the agent of a node, node:NAME; default: you")
	set.StringSliceVar(&groups, "group", nil, "groups of the subject, with commas between")
	set.StringVar(&role, "role", "", "the most that it allows; default: all that the subject may do")
	set.StringSliceVar(&only, "only", nil, "namespaces in which it is valid, with commas between; default: everywhere")
	set.DurationVar(&life, "life", 0, "how long it is valid; default: 2160h, at most 43800h")
	cmdutil.Preset(set, "life", "", "leave it out for the default")
	set.StringVar(&note, "note", "", "a text for people, such as laptop")
	return cmd
}

func newTokenLs(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List tokens",
		Long: `Lists your tokens or, for an administrator, those of all.

  escher auth token ls`,
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.API(cmd.Context())
			if err != nil {
				return err
			}
			all, err := cmdutil.Pages[document.Token](cmd.Context(), c, "/v1/tokens", nil)
			if err != nil {
				return err
			}
			rows := make([]tokenRow, len(all))
			for i, t := range all {
				rows[i] = tokenRow{t, time.Now()}
			}
			return cmdutil.Print(f, rows)
		},
	}
}

func newTokenRevoke(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke tokens by their ids",
		Long: `Revokes tokens by their ids. Open requests of their bearers end within moments.

  escher auth token revoke k3v9p2m4x7qa`,
		Args: cmdutil.AtLeastOne("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return remove(cmd, f, "/v1/tokens/", args)
		},
	}
}
