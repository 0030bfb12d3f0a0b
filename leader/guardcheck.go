package leader

import "context"

// Check implements [Guard].
func (s *guardedStream) Check(ctx context.Context, reply func(error)) {
	go func() {
		_, err := s.streamInfo(ctx)
		reply(err)
	}()
}
