// Package front is what all commands have in common: flags and the connection, exit codes, and how they read
// and write text.
package front

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// ErrUnreachable is wrapped in the error that connect returns when no server accepts
// the connection.
var ErrUnreachable = errors.New("cannot connect")

// Globals are the flags of every command. Flags that `nats` also has have the same name
// and meaning there, and take the same environment variables.
type Globals struct {
	Stdio

	Settings       []func() natscontext.Option // over those of the context
	User, Password string
	tlsFirst       bool
	Version        string // of this build
	ConnectionName string
	Timeout        time.Duration // for one answer of NATS
	Context        string
	urls           string // of --server
	NoContext      bool
	NoDiscovery    bool
	keeps          atomic.Int64 // see fits

	Bucket      string
	BucketNamed bool // by the flag

	LogFormat string
	Log       *LineLog // of a command that goes on; nil: none

	// command holds the arguments after the first "--" of `run`, as they were given. It
	// is nil if there was no "--".
	Command []string

	Words  map[string][]string  // that complete has read, of each kind; nil: no completion was requested
	loaded *natscontext.Context // see load
}

// Register adds the flags to the application.
func (g *Globals) Register(app *fisk.Application) {
	flag := app.Flag
	setting := func(name, help, env, placeholder string, option func(string) natscontext.Option) {
		value := flag(name, help).Envar(env).PlaceHolder(placeholder).String()
		g.Settings = append(g.Settings, func() natscontext.Option { return option(*value) })
	}
	flag("server", "NATS server URLs").Short('s').Envar("NATS_URL").PlaceHolder("URL").StringVar(&g.urls)
	flag("user", "Username or token").Envar("NATS_USER").PlaceHolder("USER").StringVar(&g.User)
	flag("password", "Password").Envar("NATS_PASSWORD").PlaceHolder("PASSWORD").StringVar(&g.Password)
	setting("token", "Token", "NATS_TOKEN", "TOKEN", natscontext.WithToken)
	setting("creds", "User credentials", "NATS_CREDS", "FILE", natscontext.WithCreds)
	setting("nkey", "User NKey", "NATS_NKEY", "FILE", natscontext.WithNKey)
	setting("jwt", "User JWT", "NATS_JWT", "JWT", natscontext.WithUserJWT)
	setting("seed", "User seed", "NATS_SEED", "SEED", natscontext.WithUserSeed)
	setting("tlscert", "TLS public certificate", "NATS_CERT", "FILE", natscontext.WithCertificate)
	setting("tlskey", "TLS private key", "NATS_KEY", "FILE", natscontext.WithKey)
	setting("tlsca", "TLS certificate authority chain", "NATS_CA", "FILE", natscontext.WithCA)
	flag("no-discovery", "Connect to the servers of --server only, and to none that they advertise").UnNegatableBoolVar(&g.NoDiscovery)
	flag("tlsfirst", "Perform the TLS handshake before expecting the server's greeting").BoolVar(&g.tlsFirst)
	setting("socks-proxy", "SOCKS5 proxy for connecting to NATS", "NATS_SOCKS_PROXY", "PROXY", natscontext.WithSocksProxy)
	setting("inbox-prefix", "Prefix of the inboxes", "", "PREFIX", natscontext.WithInboxPrefix)
	setting("js-domain", "JetStream domain", "", "DOMAIN", natscontext.WithJSDomain)
	setting("js-api-prefix", "Subject prefix of the JetStream API", "", "PREFIX", natscontext.WithJSAPIPrefix)
	flag("connection-name", "Name of the connection, for people who look at the server").Default("natsleader").PlaceHolder("NAME").StringVar(&g.ConnectionName)
	flag("timeout", "Time to wait for an answer of NATS").Default("4s").Envar("NATS_TIMEOUT").DurationVar(&g.Timeout)
	flag("context", "NATS context, made with `nats context`; the selected one by default").Envar("NATS_CONTEXT").PlaceHolder("NAME").
		HintAction(natscontext.KnownContexts).StringVar(&g.Context)
	flag("no-context", "Do without the selected context").UnNegatableBoolVar(&g.NoContext)
}

// RegisterBucketFlag adds --bucket to the application or command that flag belongs to. names completes it.
func (g *Globals) RegisterBucketFlag(flag func(name, help string) *fisk.FlagClause, names func() []string) {
	flag("bucket", "Bucket of the elections").IsSetByUser(&g.BucketNamed).Envar("NATSLEADER_BUCKET").Default(defaultBucket).PlaceHolder("NAME").
		HintAction(func() []string {
			if g.Words != nil { // fisk calls it in other cases, too
				g.Bucket = defaultBucket // not the beginning of a name that is to be completed
			}
			return names()
		}).StringVar(&g.Bucket)
}

const defaultBucket = "elections"

// Load reads the context and puts the flags over it.
func (g *Globals) Load() (*natscontext.Context, error) {
	if g.loaded != nil {
		return g.loaded, nil
	}
	if g.Timeout <= 0 {
		return nil, Usagef("--timeout %v is not more than 0", g.Timeout)
	}
	opts := []natscontext.Option{natscontext.WithServerURL(g.urls)}
	for _, option := range g.Settings {
		opts = append(opts, option())
	}
	if g.User != "" && g.Password == "" {
		opts = append(opts, natscontext.WithToken(g.User)) // as `nats` does
	} else {
		opts = append(opts, natscontext.WithUser(g.User), natscontext.WithPassword(g.Password))
	}
	if g.tlsFirst {
		opts = append(opts, natscontext.WithTLSHandshakeFirst())
	}
	var c *natscontext.Context
	var err error
	if strings.HasSuffix(g.Context, ".json") && !g.NoContext && !natscontext.IsKnown(g.Context) {
		c, err = natscontext.NewFromFile(g.Context, opts...)
	} else {
		c, err = natscontext.New(g.Context, g.hasContext(), opts...)
	}
	switch selected := natscontext.SelectedContext(); {
	case err != nil && g.Context == "" && g.hasContext() && selected != "" && !natscontext.IsKnown(selected):
		return nil, Usagef("the selected context %q is gone: select another with `nats context select`, or name a server with -s", selected)
	case err != nil:
		return nil, Usagef("context: %w", err)
	}
	for _, file := range []struct{ what, path string }{
		{"credentials", c.Creds()},
		{"NKey", c.NKey()},
		{"TLS certificate", c.Certificate()},
		{"TLS key", c.Key()},
		{"TLS authority", c.CA()},
	} {
		if file.path == "" || resolvedLater(file.path) {
			continue
		}
		f, err := os.Open(os.ExpandEnv(file.path))
		if err != nil {
			return nil, Usagef("%s: %w", file.what, err)
		}
		_ = f.Close()
	}
	if err := checkTLS(c); err != nil {
		return nil, err
	}
	g.loaded = c
	return c, nil
}

// hasContext reports whether there are settings of a context. A selected one that was removed is done without where --server says
// where to connect to.
func (g *Globals) hasContext() bool {
	switch {
	case g.NoContext:
		return false
	case g.Context != "":
		return true
	case !mayHaveContexts():
		return false
	}
	name := natscontext.SelectedContext()
	return name == "" || natscontext.IsKnown(name) || g.urls == ""
}

// mayHaveContexts reports whether a context can have been selected. natscontext fails where the user has no home
// directory, as in an image that knows no users.
func mayHaveContexts() bool {
	if os.Getenv("XDG_CONFIG_HOME") != "" {
		return true
	}
	if u, err := user.Current(); err == nil && u.HomeDir != "" {
		return true
	}
	// Rather the error of natscontext than another server than the selected one.
	_, err := os.Stat(filepath.Join(os.Getenv("HOME"), ".config", "nats", "context.txt"))
	return err == nil
}

// resolvedLater reports whether natscontext resolves the path when it connects.
func resolvedLater(path string) bool {
	return strings.HasPrefix(path, "~") || strings.HasPrefix(path, "op://")
}

// checkTLS reports files for TLS that cannot work. To the connection they would look like a
// server that cannot be reached, or be ignored.
func checkTLS(c *natscontext.Context) error {
	cert, key, ca := os.ExpandEnv(c.Certificate()), os.ExpandEnv(c.Key()), os.ExpandEnv(c.CA())
	switch {
	case cert != "" && key == "":
		return Usagef("--tlscert %s needs --tlskey, the private key of the certificate", cert)
	case key != "" && cert == "":
		return Usagef("--tlskey %s needs --tlscert, the certificate of the key", key)
	case cert != "" && !resolvedLater(cert) && !resolvedLater(key):
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			return Usagef("--tlscert %s with --tlskey %s: %w", cert, key, err)
		}
	}
	if ca != "" && !resolvedLater(ca) {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return Usagef("--tlsca: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return Usagef("--tlsca %s has no PEM certificate in it", ca)
		}
	}
	return nil
}

// FlusherTimeout is how long a write to the socket may take while the network takes
// nothing. nats.go holds the connection's lock meanwhile, so every call waits, whatever
// its context says. The default of nats.go is a minute.
const FlusherTimeout = 2 * time.Second

// Connect connects to NATS. It notices within seconds that a server hangs, and connects
// again for as long as the process lives. By default the connection prints nothing;
// opts come last, so that a caller can set a handler that prints.
func (g *Globals) Connect(opts ...nats.Option) (*nats.Conn, error) {
	c, err := g.Load()
	if err != nil {
		return nil, err
	}
	all, err := c.NATSOptions(slices.Concat(g.dialling(), []nats.Option{
		nats.Name(g.ConnectionName),
		nats.Timeout(max(nats.DefaultTimeout, g.Timeout/2)),
		nats.PingInterval(time.Second),
		nats.FlusherTimeout(FlusherTimeout),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts, g.Dial, []nats.Option{g.limitDials})...)
	if err != nil {
		return nil, Usagef("connection settings: %w", err)
	}
	nc, err := nats.Connect(c.ServerURL(), all...)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, Usagef("connection settings: %w", err)
	case err != nil:
		return nil, fmt.Errorf("%w to %s: %w", ErrUnreachable, redacted(c.ServerURL()), err)
	}
	return nc, nil
}

// redacted returns a list of URLs without their passwords.
func redacted(urls string) string {
	list := strings.Split(urls, ",")
	for i, s := range list {
		if u, err := url.Parse(strings.TrimSpace(s)); err == nil && u.User != nil {
			u.User = url.User("xxxxx") // a name alone is a token
			list[i] = u.String()
		}
	}
	return strings.Join(list, ",")
}

// jetStream is the JetStream of the flags and the context.
func (g *Globals) jetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	c, err := g.Load()
	if err != nil {
		return nil, err
	}
	timeout := jetstream.WithDefaultTimeout(g.Timeout)
	switch {
	case c.JSDomain() != "":
		return jetstream.NewWithDomain(nc, c.JSDomain(), timeout)
	case c.JSAPIPrefix() != "":
		return jetstream.NewWithAPIPrefix(nc, c.JSAPIPrefix(), timeout)
	}
	return jetstream.New(nc, timeout)
}

// Open connects, and opens the bucket of --bucket. The caller closes the connection.
func (g *Globals) Open(opts ...nats.Option) (*nats.Conn, jetstream.JetStream, *leader.Bucket, error) {
	nc, err := g.Connect(opts...)
	if err != nil {
		return nil, nil, nil, err
	}
	js, err := g.jetStream(nc)
	if err == nil {
		var b *leader.Bucket
		if b, err = leader.OpenBucket(js, g.Bucket); err == nil {
			return nc, js, b, nil
		}
	}
	nc.Close()
	return nil, nil, nil, err
}

// WithTimeout returns a context that ends if NATS has not answered in time.
func (g *Globals) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.Timeout)
}

// CredentialVariables are those that other commands do not find in their environment. A user alone is a token.
var CredentialVariables = []string{"NATS_USER", "NATS_PASSWORD", "NATS_TOKEN", "NATS_JWT", "NATS_SEED"}

// EnvironWithout returns the environment without some variables.
func EnvironWithout(names ...string) []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}
