package auth

import (
	"bufio"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/types"
)

const loginHelp = `Stores the address of a server and a token as a context, and makes it the current one. It
reads the token from a file or from the input, and asks the server as whom it knows you.

  escher login https://escher.example.com:7421 --cacert ca.pem --token-file token

An administrator makes a token with escher auth token create.`

// maxToken bounds the text that is read as a token, in bytes.
const maxToken = 4096

// NewLogin returns the command that stores an address with a token.
func NewLogin(f *cmdutil.Factory) *cobra.Command {
	var file, name string
	cmd := &cobra.Command{
		Use:   "login SERVER",
		Short: "Store the address of a server and a token for it",
		Long:  loginHelp,
		Args:  cmdutil.Exactly("SERVER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := contexts.Context{Server: args[0], Namespace: f.Given.Namespace}
			if ca := f.Given.CACert; ca != "" {
				abs, err := filepath.Abs(ca)
				if err != nil {
					return types.Errorf(types.Invalid, "cacert: %q: %w: give an absolute path", ca, err)
				}
				c.CACert = abs
			}
			if name == "" {
				name = hostOf(args[0])
			}
			if err := types.ValidateName("context", name); err != nil {
				return err
			}
			var err error
			if c.Token, err = readToken(f, file); err != nil {
				return err
			}
			api, err := client.New(client.Config{Server: c.Server, CACert: c.CACert, Token: c.Token})
			if err != nil {
				return err
			}
			defer api.Close()
			var me identity
			if err := api.Get(cmd.Context(), "/v1/whoami", nil, &me); err != nil {
				return err
			}
			err = store(f, name, c)
			if err == nil {
				f.Tell("context %s is in use now: you are %s there", name, me.Subject)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "token-file", "", "file with the token; default: the input")
	cmd.Flags().StringVar(&name, "name", "", "name of the context; default: the host of the server")
	return cmd
}

// store stores a context, and makes it the current one.
func store(f *cmdutil.Factory, name string, c contexts.Context) error {
	path := contexts.Path(f.Getenv)
	file, err := contexts.Load(path)
	if err != nil {
		return err
	}
	if file.Contexts == nil {
		file.Contexts = make(map[string]contexts.Context)
	}
	file.Contexts[name], file.Current = c, name
	return file.Save(path)
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
	if file != "" {
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
