package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
)

// roster observes the roster of an election for a page.
func (u *uiState) roster(ctx context.Context, election string) (<-chan []leader.RosterEntry, error) {
	s := u.inspector()
	if s == nil || checkElection(election) != nil {
		return nil, errors.New("no connection, or no such election")
	}
	all, err := leader.ObserveRoster(ctx, s.bucket, election)
	if err != nil && !errors.Is(err, leader.ErrNoRoster) {
		err = errors.New(errorText(err))
	}
	return all, err
}

// actions returns what a page may ask leaders for.
func (u *uiState) actions() map[string]webpage.Action {
	return map[string]webpage.Action{
		"step-down": u.act(func(ctx context.Context, b *leader.Bucket, a uiAction) (leader.Holder, error) {
			return leader.StepDown(ctx, b, a.Election, requester("ui"))
		}),
		"transfer": u.act(func(ctx context.Context, b *leader.Bucket, a uiAction) (leader.Holder, error) {
			return leader.Transfer(ctx, b, a.Election, a.ID, requester("ui"))
		}),
	}
}

// uiAction is a request of the page.
type uiAction struct {
	Election string `json:"election"`
	ID       string `json:"id"`           // of the candidate that is to lead; empty: the next
	Token    uint64 `json:"token,string"` // of the term that the user has seen
}

// act answers a request that changes the leader.
func (u *uiState) act(do func(context.Context, *leader.Bucket, uiAction) (leader.Holder, error)) webpage.Action {
	const wait = 25 * time.Second // less than the limit of the response
	return func(ctx context.Context, request json.RawMessage) (any, error) {
		var a uiAction
		if err := json.Unmarshal(request, &a); err != nil || checkElection(a.Election) != nil {
			return nil, &webpage.Error{Status: http.StatusBadRequest, Text: "no such election"}
		}
		s := u.inspector()
		if s == nil {
			return nil, &webpage.Error{Status: http.StatusServiceUnavailable, Text: "there is no connection to NATS"}
		}
		if row := u.Row(a.Election); row.Token != 0 && row.Token != a.Token {
			return nil, errors.New("another term leads than that which the page has shown: ask again")
		}
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		was, err := do(ctx, s.bucket, a)
		done, err := handedOver(ctx, s.bucket, a.Election, wait, was, err)
		if err != nil {
			return nil, errors.New(errorText(err))
		}
		return done, nil
	}
}
