package auth

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
)

const loginHelp = `Logs in at a server, stores a token for it as a context, and makes that the current one. If
the servers have an issuer of OpenID Connect, you confirm a code at the issuer with a
browser. The token is renewed until the issuer ends your login.

  escher login https://escher.example.com:7421 --cacert ca.pem
  escher login https://escher.example.com:7421 --cacert ca.pem --token-file token

Without an issuer, it reads a token from a file or from the input: an administrator makes one
with escher auth token create. It asks the server as whom it knows you.`

// maxToken bounds the text that is read as a token, in bytes.
const maxToken = 4096

// NewLogin returns the command that stores an address with a token.
func NewLogin(f *cmdutil.Factory) *cobra.Command {
	var file, name, issuerCA string
	cmd := &cobra.Command{
		Use:   "login SERVER",
		Short: "Log in at a server, and store its address with a token",
		Long:  loginHelp,
		Args:  cmdutil.Exactly("SERVER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := contexts.Context{Server: args[0], Namespace: f.Given.Namespace}
			for _, path := range []*string{&f.Given.CACert, &issuerCA} {
				if *path == "" {
					continue
				}
				abs, err := filepath.Abs(*path)
				if err != nil {
					return types.Errorf(types.Invalid, "cacert: %q: %w: give an absolute path", *path, err)
				}
				*path = abs
			}
			c.CACert = f.Given.CACert
			if name == "" {
				name = hostOf(args[0])
			}
			if err := types.ValidateName("context", name); err != nil {
				return err
			}
			if err := authenticate(cmd.Context(), f, &c, file, issuerCA); err != nil {
				return err
			}
			var me identity
			if err := ask(cmd.Context(), c, "/v1/whoami", &me); err != nil {
				return err
			}
			err := contexts.Change(cmd.Context(), contexts.Path(f.Getenv), func(file *contexts.File) error {
				file.Contexts[name], file.Current = c, name
				return nil
			})
			if err == nil {
				f.Tell("context %s is in use now: you are %s there", name, issued.SubjectText(me.Subject))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "token-file", "", "file with the token, or - for the input; default: log in at the issuer of the servers, and without one the input")
	cmd.Flags().StringVar(&issuerCA, "oidc-ca", "", "file of the authorities that the issuer's certificate may come from; default: those of the system")
	cmd.Flags().StringVar(&name, "name", "", "name of the context; default: the host of the server")
	return cmd
}

// ask reads an answer of the server of a context.
func ask(ctx context.Context, c contexts.Context, path string, into any) error {
	api, err := client.New(client.Config{Server: c.Server, CACert: c.CACert, Token: c.Token})
	if err != nil {
		return err
	}
	defer api.Close()
	return api.Get(ctx, path, nil, into)
}

// authenticate gets the token of a context: from a file, from the issuer of its server, or from the input.
func authenticate(ctx context.Context, f *cmdutil.Factory, c *contexts.Context, file, issuerCA string) (err error) {
	var login oidc.Login
	if file == "" {
		// A server of an earlier version knows no issuer.
		if err := ask(ctx, *c, "/v1/login", &login); err != nil && !types.Is(err, types.NotFound) {
			return err
		}
	}
	if login.Issuer == "" {
		c.Token, err = readToken(f, file)
		return err
	}
	flow, err := oidc.NewFlow(ctx, login, issuerCA, time.Now)
	if err != nil {
		return err
	}
	code, err := flow.Begin(ctx)
	if err != nil {
		return err
	}
	if code.Filled != "" {
		f.Tell("open %s with a browser, and confirm the code %s", code.Filled, code.Code)
	} else {
		f.Tell("open %s with a browser, and enter the code %s", code.URL, code.Code)
	}
	tokens, err := flow.Wait(ctx, code)
	if err != nil {
		return err
	}
	c.Token, c.Login = tokens.Token, contexts.NewLogin(login.Issuer, login.ClientID, issuerCA, tokens)
	return nil
}

// hostOf returns the host of an address as a name.
func hostOf(server string) string {
	u, err := url.Parse(server)
	if err != nil || !types.IsName(u.Hostname()) {
		return "server"
	}
	return u.Hostname()
}

// readToken reads a token from a file or, without one, from the input.
func readToken(f *cmdutil.Factory, file string) (string, error) {
	in := f.In
	if file != "" && file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return "", types.Errorf(types.Invalid, "token-file: %w: give a readable file with the token", err)
		}
		defer opened.Close()
		in = opened
	} else if f.InputIsTerminal() == nil {
		f.Tell("paste the token, and press Enter")
	}
	line, err := bufio.NewReader(io.LimitReader(in, maxToken)).ReadString('\n')
	if token := strings.TrimSpace(line); token != "" && (err == nil || err == io.EOF) {
		return token, nil
	}
	return "", types.Errorf(types.Invalid, "token: there is none in the input: an administrator makes one with escher auth token create; give it with --token-file")
}
