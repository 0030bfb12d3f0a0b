package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/leader"
)

func TestBucketAdd_RefusalNamesFlags(t *testing.T) {
	for _, k := range []struct {
		err  error
		code int
		says string
	}{
		// The errors of package leader. Their texts about Adopt and MaxLease may
		// change.
		{fmt.Errorf("create bucket x: %w: MaxLease 1s is less than the lease of 15s on record of billing", leader.ErrInvalidConfig), exitUsage, "--max-lease 1s is less than"},
		{fmt.Errorf("create bucket x: %w: MaxLease 1s is less than the lease of 15s on record of billing", leader.ErrIncompatibleBucket), exitBucket, "MaxLease 1s is less than"},
		{fmt.Errorf("create bucket x: %w: stream KV_x keeps 10 revisions of each key; Adopt takes it all the same", leader.ErrIncompatibleBucket), exitBucket, "; --adopt takes it"},
		{fmt.Errorf("create bucket x: %w: key a holds \x1b]0;title\a; set BucketConfig.Adopt", leader.ErrIncompatibleBucket), exitBucket, `\x1b]0;title\a; set --adopt`},
		{fmt.Errorf("%w: cannot do that", leader.ErrUnreachable), exitUnreachable, "cannot do that"},
	} {
		err := refusedBucket(k.err)
		if text := errorText(err); codeOf(err) != k.code || !strings.Contains(text, k.says) || rawIn(text) {
			t.Errorf("exit code %d, %q, want %q", codeOf(err), text, k.says)
		}
	}
}
