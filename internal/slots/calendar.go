package slots

// Calendar returns the first slot after an instant; None: there is none. It is code of the application.
type Calendar func(after int64) int64

// search is a calendar that is called a bounded number of times.
type search struct {
	cal  Calendar
	left int
}

func (b *Book) search(cal Calendar) *search { return &search{cal, b.Calls} }

// next returns the first slot after an instant. It returns false if the calendar does not advance, or was called too often.
func (s *search) next(after int64) (next int64, ok bool) {
	if s.left--; s.left < 0 {
		return None, false
	}
	next = s.cal(after)
	return next, next == None || next > after
}

// upTo returns the slots after an instant up to now.
func (s *search) upTo(after, now int64) (found []int64, ok bool) {
	next, ok := s.next(after)
	for ok && next != None && next <= now {
		found = append(found, next)
		next, ok = s.next(next)
	}
	return found, ok
}

// newest returns the newest slots after an instant up to now, oldest first. It looks back over a span first, and twice as far
// each time, so that a long absence costs little. Where the calendar is broken it returns what it has found, and false.
func (s *search) newest(after, now, span int64, most int) (found []int64, ok bool) {
	for all := false; !all && len(found) < most; span *= 2 {
		from := now - span
		if all = span <= 0 || from <= after; all {
			from = after
		}
		var slots []int64
		slots, ok = s.upTo(from, now)
		if ok || found == nil && s.left >= 0 { // the first of too many are not the newest
			found = slots[max(0, len(slots)-most):]
		}
		if !ok {
			return found, false
		}
	}
	return found, true
}

// printed is of how many slots a fingerprint is. With one, a slot of another calendar can go untold.
const printed = 4

// fingerprint returns that of the first slots after an instant (FNV-1a), which is never 0.
func fingerprint(cal Calendar, after int64) uint32 {
	h := uint32(2166136261)
	for range printed {
		next := cal(after)
		if next <= after {
			break
		}
		for x := next; x != 0; x >>= 8 {
			h = (h ^ uint32(x&0xff)) * 16777619 //nolint:gosec // a byte
		}
		after = next
	}
	return max(1, h)
}
