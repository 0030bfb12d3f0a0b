package leader_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/kvelect"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// verbs are what an actor of a story can do.
var verbs map[string]func(s *stage, who string, args []string)

func init() { // the verbs use one another
	verbs = map[string]func(s *stage, who string, args []string){
		// A candidate.
		"campaigns": (*stage).campaigns,
		"crashes":   func(s *stage, who string, _ []string) { backend.Crash(s.cast[who].Candidate) },
		"stops": func(s *stage, who string, _ []string) {
			s.call(who, "Stop", func() (any, error) { return nil, s.cast[who].Stop() })
		},
		"resigns": func(s *stage, who string, _ []string) {
			s.call(who, "Resign", func() (any, error) { return nil, s.cast[who].newest().Resign(s.Context()) })
		},
		"transfers": func(s *stage, who string, args []string) {
			s.call(who, "Transfer", func() (any, error) { return nil, s.cast[who].newest().TransferTo(s.Context(), args[0]) })
		},
		"proclaims": func(s *stage, who string, args []string) {
			ctx := s.within(args[1:])
			s.call(who, "Proclaim", func() (any, error) { return nil, s.cast[who].newest().Proclaim(ctx, []byte(args[0])) })
		},
		"releases": func(s *stage, who string, args []string) {
			synctest.Wait()
			s.cast[who].endWork(-1)
		},
		"releases-first": func(s *stage, who string, _ []string) { s.cast[who].endWork(0) },
		"employed":       (*stage).employed,
		"goes":           (*stage).goes,
		"of-term":        (*stage).ofTerm,
		"graced":         (*stage).graced,
		"cancels":        func(s *stage, who string, _ []string) { s.cancel[who]() },
		"works":          (*stage).works,
		"jumps": func(s *stage, who string, args []string) {
			s.clocks[who].ahead.Add(int64(s.duration(args[0])))
		},
		"asks": func(s *stage, who string, args []string) { // whether the newest term leads, in one way
			term := s.cast[who].lastTerm(s.T)
			lead, child := term.Context(), context.WithValue(term.Context(), &verbs, who)
			map[string]func(){
				"Err": func() { _ = lead.Err() }, "Done": func() { lead.Done() },
				"leader.Err": func() { _ = leader.Err(child) },
				"Exact.Err":  func() { _ = leader.Exact(child).Err() }, "Exact.Done": func() { leader.Exact(child).Done() },
			}[args[0]]()
		},
		"ready": func(s *stage, who string, _ []string) {
			s.note(who, "is ready: %s", causeName(s.cast[who].Ready(s.within([]string{"within", "0s"}))))
		},
		"is-leader": func(s *stage, who string, _ []string) { s.note(who, "is the leader: %v", s.cast[who].IsLeader()) },
		"pings": func(s *stage, who string, _ []string) {
			s.note(who, "Ping: %s", causeName(s.cast[who].Ping(s.Context())))
		},
		"is": func(s *stage, who string, _ []string) { s.note(who, "is %v", s.cast[who].State()) },
		"term": func(s *stage, who string, _ []string) { // the newest
			c, term := s.cast[who], s.cast[who].lastTerm(s.T)
			now, led := c.Term()
			check.That(s, led == (leader.Err(term.Context()) == nil) && led == c.IsLeader() && (!led || now == term),
				"%s leads in one sense only", who)
			check.Equal(s, causeName(context.Cause(term.Context())), causeName(leader.Err(term.Context())), "the context ends with %s")
			if led {
				s.note(who, "its term is valid for %v", term.Remaining())
				return
			}
			s.note(who, "its term is over: %s", causeName(leader.Err(term.Context())))
		},
		"follows": func(s *stage, who string, _ []string) { // in its newest term
			h := s.cast[who].lastTerm(s.T).Previous()
			if h.State == leader.HolderNone {
				check.Deep(s, h, leader.Holder{Seat: h.Seat})
				s.note(who, "follows nobody that is known")
				return
			}
			at := "an unknown time"
			if !h.Renewed.IsZero() {
				at = h.Renewed.Sub(s.zero).String()
			}
			s.note(who, "follows %s on seat %d, %s at %s with %q", h.ID, h.Seat, h.State, at, h.Value)
		},
		"knows": func(s *stage, who string, _ []string) {
			h, does := s.cast[who].Leader(), "leads"
			if h.State == leader.HolderPending {
				h.State, does = leader.HolderLeading, "holds the key"
			}
			s.note(who, "knows that %s %s", holderName(h), does)
		},
		"counts": func(s *stage, who string, args []string) {
			stats := reflect.ValueOf(s.cast[who].Stats())
			for _, name := range args {
				value := stats.FieldByName(name).Interface()
				if counts, ok := value.(map[error]uint64); ok {
					named := make(map[string]uint64)
					for err, n := range counts {
						named[causeName(err)] += n
					}
					value = named
				}
				s.note(who, "has %s %v", name, value)
			}
		},
		"drained": func(s *stage, who string, _ []string) { s.note(who, "Finished %v", s.cast[who].drained()) },
		"leads": func(s *stage, who string, args []string) { // and these believe it
			var all []*candidate
			for _, id := range append(args, who) {
				if id != "somebody" {
					all = append(all, s.cast[id])
				}
			}
			if led := s.leads(all...); who != "somebody" {
				check.Equal(s, led.ID(), who, "%s leads")
			}
		},
		"sees": func(s *stage, who string, _ []string) {
			for _, h := range s.cast[who].Leaders() {
				s.note(who, "sees %s on seat %d", h.ID, h.Seat)
			}
		},

		// A connection.
		"dials": func(s *stage, who string, _ []string) { s.client(who, nats.RetryOnFailedConnect(true)) },
		"cut": func(s *stage, who string, _ []string) {
			if s.kit != nil {
				s.kit.Link(who).Cut()
				return
			}
			s.client(who).cut()
		},
		"back": func(s *stage, who string, _ []string) {
			if s.kit != nil {
				s.kit.Link(who).Restore()
				return
			}
			s.client(who).open()
		},
		"closes": func(s *stage, who string, _ []string) {
			if s.kit != nil {
				s.kit.Link(who).Close()
				return
			}
			s.client(who).nc.Close()
		},
		"caught-up": func(s *stage, who string, _ []string) { s.client(who).openInTurn() },
		"loses":     func(s *stage, who string, args []string) { s.client(who).treat(drop, frames(args)) },
		"delays":    func(s *stage, who string, args []string) { s.client(who).treat(hold, frames(args)) },
		"gone-with-a-write-under-way": func(s *stage, who string, _ []string) {
			deliver := s.client(who).takeHeld()
			s.client(who).cut()
			deliver(s.world, "$KV.E.e")
		},
		"deafened": func(s *stage, who string, _ []string) { s.client(who).deafen() },
		"first-write-late": func(s *stage, who string, _ []string) {
			s.client(who).filter(firstWrite())
		},
		"refused": func(s *stage, who string, args []string) {
			s.client(who).refuse(s.world, check.Got(strconv.Atoi(args[0]))(s), len(args) > 1)
		},
		"link": func(s *stage, who string, args []string) { s.method(s.kit.Link(who), args) },
		"sent": func(s *stage, who string, args []string) { // requests of the kinds, or of all kinds
			var n int64
			if s.kit == nil {
				n = s.requests(s.client(who))
			} else {
				all := s.kit.Requests()
				if who != "store" {
					all = s.kit.Link(who).Requests()
				}
				for _, kind := range args {
					n += reflect.ValueOf(all).FieldByName(kind).Int()
				}
				if len(args) == 0 {
					n = int64(all.Total())
				}
				who = strings.Join(append([]string{who}, args...), " ")
			}
			if before, ok := s.sent[who]; ok {
				s.note(who, "sent %d", n-before)
			}
			s.sent[who] = n
		},

		// An operator, by the name of the key, or of another thing.
		"deleted": func(s *stage, key string, _ []string) { s.ok(s.kv().Delete(s.Context(), key)) },
		"purged": func(s *stage, key string, _ []string) {
			s.note(key, "purged: %v", s.kv().Purge(s.Context(), key) == nil)
		},
		"put": func(s *stage, key string, args []string) { s.write(s.kv(), key, strings.Join(args, " ")) },
		"found": func(s *stage, key string, args []string) {
			h, err := leader.Lookup(s.Context(), s.store("operator"), key)
			s.ok(err)
			since := "never"
			if !h.Since.IsZero() {
				since = h.Since.Sub(s.zero).String()
			}
			s.note(key, "is held by %s since %s", cmp.Or(strings.Join(args, ""), holderName(h)), since)
			if len(h.Value) > 0 {
				s.note(key, "with the value %q", h.Value)
			}
			if h.State == leader.HolderReleased {
				s.note(key, "was released")
			}
			if l := h.Last; l != nil {
				s.note(key, "was led by %s, %s at %v with %q", l.ID, l.State, l.Renewed.Sub(s.zero), l.Value)
			}
		},
		"lease": func(s *stage, key string, _ []string) {
			h := check.Got(leader.Lookup(s.Context(), s.store("operator"), key))(s)
			s.note(key, "keeps others out for %v", h.Lease)
		},
		"waited-for": func(s *stage, key string, args []string) {
			all, err := roster.Lookup(s.Context(), s.store("operator"), key)
			if s.ok(err); len(args) > 0 {
				s.note(key, "is waited for by %d", len(all))
				return
			}
			for _, h := range all {
				s.note(key, "is waited for by %s%s", h.ID, map[bool]string{true: " (denied)"}[h.Denied])
			}
		},
		"stepped-down": func(s *stage, key string, args []string) {
			s.call(key, "StepDown", func() (any, error) {
				h, err := leader.StepDown(s.Context(), s.store("operator"), key, leader.StepDownOptions{By: "jane@laptop"})
				return h.ID, err
			})
		},
		"handed-to": func(s *stage, key string, args []string) {
			s.call(key, "Transfer", func() (any, error) {
				to := strings.Join(args, "")
				h, err := leader.StepDown(s.Context(), s.store("operator"), key,
					leader.StepDownOptions{To: to, Next: to == "", By: "jane@laptop"})
				return h.ID, err
			})
		},
		"gone": func(s *stage, stream string, _ []string) { s.ok(s.ops.js.DeleteStream(s.Context(), stream)) },
		"made": func(s *stage, place string, _ []string) { places[place](s.world) },
		"grew": func(s *stage, stream string, _ []string) { // by so many messages since it was asked last
			last := int64(check.Got(s.ops.js.Stream(s.Context(), stream))(s).CachedInfo().State.LastSeq)
			s.note(stream, "grew by %d", last-s.sent[stream])
			s.sent[stream] = last
		},
		"emptied": func(s *stage, stream string, _ []string) {
			s.note(stream, "emptied: %v", check.Got(s.ops.js.Stream(s.Context(), stream))(s).Purge(s.Context()) == nil)
		},
		"rolled-up": func(s *stage, subject string, _ []string) {
			m := &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Rollup": {"all"}}, Data: []byte("x")}
			_, err := s.ops.js.PublishMsg(s.Context(), m)
			s.note(subject, "rolled up: %v", err == nil)
		},
		"last-message-deleted": func(s *stage, stream string, _ []string) {
			of := check.Got(s.ops.js.Stream(s.Context(), stream))(s)
			s.note(stream, "its last message deleted: %v", of.DeleteMsg(s.Context(), of.CachedInfo().State.LastSeq) == nil)
		},
		"down":        func(s *stage, _ string, _ []string) { s.stopServer() },
		"up":          func(s *stage, _ string, _ []string) { s.startServer() },
		"snapshot":    func(s *stage, _ string, _ []string) { s.past = s.kit.Snapshot() },
		"rolled-back": func(s *stage, _ string, _ []string) { s.kit.Rollback(s.past) },
		"configured":  func(s *stage, _ string, args []string) { s.kit.Configure(kits[strings.Join(args, " ")]...) },
		"store":       func(s *stage, _ string, args []string) { s.method(s.kit, args) },

		// A process of nats-kv-leader-elect.
		"runs": (*stage).runs,
		"quits": func(s *stage, who string, _ []string) {
			for _, p := range s.olds {
				if p.name == who {
					p.quit()
				}
			}
		},

		// A lock.
		"acquires": func(s *stage, who string, args []string) { s.acquires(leader.Acquire, who, args) },
		"tries":    func(s *stage, who string, args []string) { s.acquires(leader.TryAcquire, who, args) },
		"unlocked": func(s *stage, lock string, args []string) {
			ctx := s.within(args)
			s.call(lock, "Unlock", func() (any, error) {
				if err := s.locks[lock].Unlock(ctx); err != nil {
					return textOf(err), nil
				}
				return nil, nil
			})
		},
		"held": func(s *stage, lock string, _ []string) { s.note(lock, "Err: %s", causeName(s.locks[lock].Err())) },
	}
}

// client returns the connection of an actor, and makes it if there is none.
func (s *stage) client(who string, opts ...nats.Option) *client {
	s.Helper()
	if s.dialed[who] == nil {
		s.dialed[who] = s.dial(who, opts...)
	}
	return s.dialed[who]
}

// store returns the bucket over the connection of an actor.
func (s *stage) store(who string) leader.Store {
	s.Helper()
	if s.kit != nil {
		return s.kit.Link(who)
	}
	return s.client(who).bucket(s.T)
}

// within returns a context that ends after the time after "within". "within 0s" has ended.
func (s *stage) within(args []string) context.Context {
	s.Helper()
	if len(args) < 2 || args[0] != "within" {
		return s.Context()
	}
	ctx, cancel := context.WithTimeout(s.Context(), s.duration(args[1]))
	s.Cleanup(cancel)
	return ctx
}

func (s *stage) duration(text string) time.Duration { return check.Got(time.ParseDuration(text))(s) }

// call makes a call, which may take time, and notes what it returns.
func (s *stage) call(who, name string, f func() (any, error)) {
	go func() {
		got, err := f()
		switch {
		case err != nil:
			s.noteLast(who, "%s returns %s", name, causeName(err))
		case got != nil:
			s.noteLast(who, "%s returns %v", name, got)
		default:
			s.noteLast(who, "%s returns", name)
		}
	}()
	synctest.Wait()
}

// errorNames returns the names of the errors that an error is, and otherwise its text. Whether a request
// that is not answered ends by its own limit or by that of its caller is chance if both end at one instant.
func errorNames(err error) string {
	name := causeName(err)
	for _, of := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, of) && name != fmt.Sprint(err) && name != "unreachable" {
			name += " and " + of.Error()
		}
	}
	return name
}

// textOf returns the text of an error, and the names of the errors that it is.
func textOf(err error) string {
	text := err.Error()
	if names := errorNames(err); names != text {
		text += " (" + names + ")"
	}
	return text
}

// config reads settings by their names, like LeaseDuration=15s, and words like Queue, Seats=2 and KVElect.
func (s *stage) config(args []string) (cfg leader.Config, m mark) {
	s.Helper()
	var queue leader.Queue
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "Listed":
			cfg.Queue = &leader.Queue{AtOnce: true}
			continue
		case "Queue":
			cfg.Queue = &queue
			continue
		case "KVElect":
			cfg.Logger, m = slog.New(judging{stage: s}), kvelect.Beside
			continue
		case "Seats":
			m = seated(check.Got(strconv.Atoi(value))(s))
			continue
		}
		field := reflect.ValueOf(&cfg).Elem().FieldByName(name)
		if ofQueue := reflect.ValueOf(&queue).Elem().FieldByName(name); ofQueue.IsValid() {
			field = ofQueue
		}
		check.Must(s, field.IsValid(), "no setting %q", name)
		if value == "" {
			value = "true"
		}
		field.Set(s.parse(value, field.Type()))
	}
	return cfg, m
}

// parse reads a value of that type.
func (s *stage) parse(text string, as reflect.Type) reflect.Value {
	s.Helper()
	switch as {
	case reflect.TypeFor[time.Duration]():
		return reflect.ValueOf(s.duration(text))
	case reflect.TypeFor[bool]():
		return reflect.ValueOf(text == "true")
	case reflect.TypeFor[int]():
		return reflect.ValueOf(check.Got(strconv.Atoi(text))(s))
	case reflect.TypeFor[error]():
		return reflect.ValueOf(map[string]error{
			"permission": leader.ErrPermission, "unreachable": leader.ErrUnreachable, "no-bucket": leader.ErrNoBucket, "refused": new(backend.RefusedError),
		}[text])
	default:
		return reflect.ValueOf(text).Convert(as)
	}
}

// method calls a method by its name.
func (s *stage) method(of any, args []string) {
	s.Helper()
	m := reflect.ValueOf(of).MethodByName(args[0])
	check.Must(s, m.IsValid(), "%T has no %s", of, args[0])
	var in []reflect.Value
	for i, arg := range args[1:] {
		in = append(in, s.parse(arg, m.Type().In(i)))
	}
	m.Call(in)
}

// campaigns makes a candidate.
func (s *stage) campaigns(who string, args []string) {
	s.Helper()
	election := "e"
	if len(args) > 1 && args[0] == "for" {
		election, args = args[1], args[2:]
	}
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	s.cancel[who] = cancel
	if len(args) > 0 && args[0] == "too-late" {
		cancel()
		args = args[1:]
	}
	s.clocks[who] = &jumpy{Clock: leader.SystemClock()}
	if len(args) > 0 && args[0] == "jumpy" {
		args = args[1:]
	} else {
		delete(s.clocks, who)
	}
	cfg, mark := s.config(args)
	cfg.ID = who
	if clock := s.clocks[who]; clock != nil {
		cfg.Clock = clock
	}
	if s.kit == nil {
		cl := s.client(who)
		cl.mark = mark
		s.join(s.campaign(ctx, cl, election, cfg))
		return
	}
	link := s.kit.Link(who)
	c := &candidate{Candidate: check.Got(leader.Campaign(ctx, mark.of(link), election, cfg))(s), read: make(chan struct{})}
	go c.record(s.T, s.zero, s.checker(election))
	s.join(c)
	s.Cleanup(func() {
		link.Close()
		<-c.read
	})
}

// join adds a candidate, and notes its end.
func (s *stage) join(c *candidate) {
	s.noting.Lock()
	s.cast[c.ID()] = c
	s.noting.Unlock()
	go func() {
		<-c.Done()
		<-c.read
		if err := c.Err(); err != nil {
			s.noteLast(c.ID(), "ends: %s", causeName(err))
			return
		}
		s.noteLast(c.ID(), "ends")
	}()
}

// works starts a loop over the terms of a candidate. The body works on for a while after the end of
// its context, or ends in another way after that time. Or it leaves the work to a function of Go, and returns.
func (s *stage) works(who string, args []string) {
	s.Helper()
	d, how := s.duration(args[0]), strings.Join(args[1:], "")
	body := func(term *leader.Term) bool {
		s.note(who, "begins to work")
		defer s.note(who, "ends its work")
		if how == "go" {
			on := make(chan struct{})
			begun := term.Go(func(context.Context) {
				s.note(who, "works on")
				close(on)
				defer s.note(who, "works no longer")
				time.Sleep(d)
			})
			if begun {
				<-on // the order of the transcript
			}
			return begun
		}
		if how == "" {
			<-term.Context().Done()
		}
		time.Sleep(d)
		switch how {
		case "panic":
			panic("of a worker")
		case "Goexit":
			runtime.Goexit()
		}
		return how != "break"
	}
	end := make(chan struct{})
	s.Cleanup(func() { <-end }) // the context of the test, and so the candidate, has ended then
	go func() {
		defer close(end)
		defer s.note(who, "leaves the loop")
		defer func() { _ = recover() }()
		for term := range s.cast[who].Terms() {
			if !body(term) {
				return
			}
		}
	}()
}

// employed begins work in each term of a candidate, by Go, which lasts until it "releases" the term.
func (s *stage) employed(who string, _ []string) {
	c, over := s.cast[who], false
	go func() {
		for e := range c.Events(context.Background(), leader.Elected{}) {
			if end, begun := leadertest.Work(e.(leader.Elected).Term); begun {
				c.mu.Lock()
				c.works = append(c.works, end)
				if over { // elected as the test ended
					end()
				}
				c.mu.Unlock()
			}
		}
	}()
	s.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		over = true
		for _, end := range c.works {
			end()
		}
	})
	synctest.Wait()
}

// goes begins a function of Go in the newest term. It works on for a while after the end of its context, or, if it is
// brief, only for that time.
func (s *stage) goes(who string, args []string) {
	s.Helper()
	d, brief := s.duration(args[0]), len(args) > 1 && args[1] == "brief"
	begun := s.cast[who].lastTerm(s.T).Go(func(lead context.Context) {
		s.note(who, "begins to work")
		defer s.note(who, "ends its work")
		if !brief {
			<-lead.Done()
		}
		time.Sleep(d)
	})
	if !begun {
		s.note(who, "begins nothing")
	}
	synctest.Wait()
}

// graced notes when the context of the work in hand of the newest term ends.
func (s *stage) graced(who string, _ []string) {
	ctx := leader.Grace(s.cast[who].lastTerm(s.T).Context())
	go func() {
		<-ctx.Done()
		s.note(who, "its Grace ends: %s", causeName(context.Cause(ctx)))
	}()
	synctest.Wait()
}

// ofTerm is a call of a method of a term, by its number from 1.
func (s *stage) ofTerm(who string, args []string) {
	s.Helper()
	term := s.cast[who].terms[check.Got(strconv.Atoi(args[0]))(s)-1]
	args = args[1:]
	s.call(who, "Term", func() (any, error) {
		switch args[0] {
		case "resigns":
			return nil, term.Resign(s.within(args[1:]))
		case "transfers":
			return nil, term.TransferTo(s.Context(), args[1])
		}
		return nil, term.Proclaim(s.Context(), []byte(args[1]))
	})
}

// frames returns whether a frame is of one of these kinds.
func frames(kinds []string) func(frame) bool {
	is := map[string]func(f frame) bool{
		"requests": func(f frame) bool { return f.dir == up },
		"replies":  func(f frame) bool { return f.dir == down },
		"writes":   isWrite,
		"acks": func(f frame) bool {
			return f.dir == down && strings.Contains(string(f.body), `"stream":"KV_E"`) &&
				strings.Contains(string(f.body), `"seq"`)
		},
		"answers": func(f frame) bool { return f.dir == up && strings.HasPrefix(string(f.body), `{"v":1,"answer"`) },
		"pongs":   func(f frame) bool { return f.dir == down && strings.HasPrefix(string(f.raw), "PONG") },
		"news":    func(f frame) bool { return f.dir == down && strings.HasPrefix(f.subject, "natsleader.feed.") },
		"opening": func(f frame) bool {
			return f.dir == up && (strings.HasPrefix(f.subject, "$JS.API.CONSUMER.") || strings.HasPrefix(string(f.raw), "PING"))
		},
	}
	return func(f frame) bool {
		for _, kind := range kinds {
			if is[kind](f) {
				return true
			}
		}
		return false
	}
}

// acquires is a call of Acquire or TryAcquire, for the lock of that name.
func (s *stage) acquires(
	call func(context.Context, leader.Store, string, leader.Config) (*leader.Lock, error), who string, args []string,
) {
	s.Helper()
	name, ctx := args[0], s.within(args[1:])
	if args = args[1:]; ctx != s.Context() {
		args = args[2:]
	}
	cfg, mark := s.config(args)
	cfg.ID, cfg.LeaseDuration = cmp.Or(cfg.ID, who), lease
	if s.buckets[who] == nil {
		s.buckets[who] = s.store(who)
	}
	b := mark.of(s.buckets[who])
	go func() {
		lock, err := call(ctx, b, "e", cfg)
		if s.locked(lock); err != nil {
			text, held := textOf(err), new(leader.HeldError)
			if errors.As(err, &held) {
				text, _, _ = strings.Cut(text, " leads") // on whichever seat
			}
			s.noteLast(name, "is not acquired: %s", text)
			return
		}
		s.noting.Lock()
		s.locks[name] = lock
		s.noting.Unlock()
		s.noteLast(name, "is acquired, seat %d", lock.Seat())
	}()
	synctest.Wait()
}
