package keys

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// text returns the kinds of the effects since the last call.
func text(m *machine) string {
	text := ""
	for _, e := range m.effects() {
		text += strings.TrimPrefix(fmt.Sprintf("%T ", e), "keys.")
	}
	return text
}

// A set with more keys than the limit is not complete: nothing begins, and what works goes on. When there are less, it is read
// again, once.
func TestMachine_Full(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.limit = 2
	m.granted(0, 0, now)
	shows := func(want string) {
		t.Helper()
		check.Equal(t, text(m), want, "%q")
	}
	put := func(name string, rev uint64) { m.put(Entry{Name: name, Revision: rev}, now) }
	m.listedAll(0, now)
	put("a", 1)
	shows("begin ")
	put("b", 2)
	put("c", 3)
	put("d", 4)
	put("d", 5)
	shows("begin overflow ")
	m.gone("b", 6, now)
	shows("cancel ")
	m.returned("b", true, now)
	shows("")
	m.gone("c", 7, now)
	shows("relist ")
	put("c", 8)
	m.gone("c", 9, now)
	shows("")
	m.breaks()
	put("a", 1)
	put("d", 5)
	put("e", 8)
	m.listedAll(0, now)
	shows("overflow ")
	m.gone("d", 10, now)
	shows("relist ")
	m.breaks()
	put("a", 1)
	put("e", 8)
	shows("")
	m.listedAll(0, now)
	shows("begin ")
}

// A list that does not reach what was delivered before ends after 10 s. Then a read confirms each begin, also with guards, until
// the bucket has a later message.
func TestMachine_ShortList(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.granted(0, 1, now)
	deliver := func(name string, rev uint64) {
		m.put(Entry{Name: name, Revision: rev}, now)
		m.delivered(rev, now)
	}
	deliver("a", 1)
	deliver("b", 2)
	m.listedAll(0, now)
	check.Equal(t, len(m.effects()), 2, "%d effects")
	m.breaks()
	deliver("a", 1)
	m.listedAll(2, now)
	check.Equal(t, len(m.effects()), 0, "%d effects")
	check.Equal(t, m.wake(), now.Add(10*time.Second), "the machine wakes at %v")
	m.returned("b", true, now)
	now = now.Add(10 * time.Second)
	m.tick(now.Add(-1))
	_, has := m.get("b")
	check.That(t, has, "b is gone before the list has ended")
	m.effects()
	m.tick(now)
	_, has = m.get("b")
	check.That(t, !has, "b is there")
	m.returned("a", true, now)
	now = m.wake()
	m.tick(now)
	check.Deep(t, m.effects(), []effect{read{3, "a"}})
	deliver("c", 3)
	deliver("d", 4)
	check.Deep(t, m.effects(), []effect{read{4, "c"}, begin{5, 0, 0, Entry{Name: "d", Revision: 4}}})
}

// What a read has shown while the set is read again is not gone because the list was made before.
func TestMachine_ReadWhileListing(t *testing.T) {
	m, now := newMachine(1, true), time.Unix(1000, 0)
	m.granted(0, 0, now)
	m.listedAll(0, now)
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.delivered(1, now)
	check.Deep(t, m.effects(), []effect{read{1, "a"}})
	m.breaks()
	m.answer(1, Entry{Name: "a", Revision: 3}, true, now)
	m.gone("a", 2, now)
	m.delivered(2, now)
	m.listedAll(0, now)
	_, has := m.get("a")
	check.That(t, has, "a is gone")
	m.put(Entry{Name: "a", Revision: 3}, now)
	m.delivered(3, now)
	check.Deep(t, m.effects(), []effect{read{2, "a"}})
}

// Keys that rest wake the machine in turn, and one whose value changes while it rests has one alarm.
func TestMachine_Rests(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.granted(0, 0, now)
	m.listedAll(0, now)
	for i, name := range []string{"a", "b"} {
		now = now.Add(time.Second)
		m.put(Entry{Name: name, Revision: uint64(i + 1)}, now)
		m.returned(name, true, now)
	}
	for i := range uint64(100) {
		m.put(Entry{Name: "a", Revision: i + 3}, now)
	}
	check.Equal(t, len(m.rests), 2, "%d alarms")
	m.effects()
	for range 2 {
		now = m.wake()
		m.tick(now.Add(-1))
		check.Equal(t, len(m.effects()), 0, "%d effects")
		m.tick(now)
		check.Equal(t, len(m.effects()), 1, "%d effects")
	}
	check.That(t, m.wake().IsZero(), "there is an alarm more")
}

// A revision that shows another message than before proves that the bucket has lost messages: all work ends, and nothing counts
// before the set is read again.
func TestMachine_OtherMessage(t *testing.T) {
	for name, shows := range map[string]func(m *machine, now time.Time){
		"a put":      func(m *machine, now time.Time) { m.put(Entry{"a", []byte("2"), 5}, now) },
		"a deletion": func(m *machine, now time.Time) { m.gone("a", 5, now) },
		"an earlier list": func(m *machine, now time.Time) {
			m.put(Entry{"a", nil, 4}, now)
			m.delivered(7, now)
			m.listedAll(7, now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, now := newMachine(1, false), time.Unix(1000, 0)
			m.granted(0, 4, now)
			m.put(Entry{"a", []byte("1"), 5}, now)
			m.put(Entry{"b", []byte("1"), 6}, now)
			m.delivered(6, now)
			m.listedAll(6, now)
			check.Equal(t, text(m), "begin begin ", "%s")
			m.breaks()
			shows(m, now)
			check.Equal(t, text(m), "cancel cancel lost relist ", "%s")
			m.put(Entry{"c", nil, 8}, now)
			m.delivered(8, now)
			m.listedAll(8, now)
			m.returned("a", false, now)
			check.Equal(t, text(m), "", "%s")
			m.breaks()
			m.put(Entry{"a", []byte("3"), 3}, now)
			m.listedAll(3, now)
			check.Deep(t, m.effects(), []effect{read{3, "a"}})
			m.answer(3, Entry{"a", []byte("3"), 3}, true, now)
			check.Deep(t, m.effects(), []effect{begin{4, 1, 0, Entry{"a", []byte("3"), 3}}})
		})
	}
}

// A bucket whose last revision is below one that is known has lost messages, if that does not change in 10 s.
func TestMachine_LostTail(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.granted(0, 2, now)
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.delivered(2, now)
	m.listedAll(2, now)
	check.Equal(t, text(m), "begin ", "%s")
	for range 2 { // in the first round it is a replica that lags
		m.breaks()
		m.put(Entry{Name: "a", Revision: 1}, now)
		m.delivered(1, now)
		m.listedAll(1, now)
		check.Equal(t, m.wake(), now.Add(10*time.Second), "the machine wakes at %v")
		m.tick(now.Add(10*time.Second - 1))
		check.Equal(t, text(m), "", "%s")
		if m.round == 1 {
			m.delivered(2, now)
			check.That(t, m.wake().IsZero(), "the machine wakes")
		}
	}
	m.tick(now.Add(10 * time.Second))
	check.Equal(t, text(m), "cancel lost relist ", "%s")
}

// A Complete that is answered after the bucket was made again says nothing about the revisions of the new one.
func TestMachine_CompletedLate(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.granted(0, 0, now)
	m.put(Entry{Name: "a", Revision: 100}, now)
	m.listedAll(100, now)
	check.Deep(t, m.effects(), []effect{begin{1, 0, 0, Entry{Name: "a", Revision: 100}}})
	m.completes("a", 0)
	m.breaks()
	m.remade()
	check.Equal(t, text(m), "cancel lost ", "%s")
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.completed("a", 100, 0, now)
	m.listedAll(1, now)
	m.returned("a", false, now)
	check.Equal(t, text(m), "read ", "%s")
}

// With guards, a read confirms the begin of a key that this process may have completed.
func TestMachine_CompletedPerhaps(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.granted(0, 0, now)
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.listedAll(1, now)
	m.completes("a", 0)
	m.returned("a", true, now)
	m.effects()
	now = m.wake()
	m.tick(now)
	check.Deep(t, m.effects(), []effect{read{2, "a"}})
	m.answer(2, Entry{Name: "a"}, true, now)
	check.Equal(t, text(m), "", "%s")
	now = m.wake()
	m.tick(now)
	check.Deep(t, m.effects(), []effect{read{3, "a"}})
	m.answer(3, Entry{Name: "a", Revision: 1}, true, now)
	m.returned("a", true, now)
	m.effects()
	now = m.wake()
	m.tick(now)
	check.Equal(t, text(m), "begin ", "%s")
}

// A watch that owes a revision for 10 s, which a guard or a read has shown, is opened again.
func TestMachine_DeafWatch(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.delivered(1, now)
	m.listedAll(1, now)
	m.granted(0, 2, now)
	check.Equal(t, m.wake(), now.Add(patience), "the machine wakes at %v")
	m.tick(now.Add(patience - 1))
	check.Equal(t, text(m), "", "%s")
	m.tick(now.Add(patience))
	check.Equal(t, text(m), "relist ", "%s")
	check.That(t, m.wake().IsZero(), "the machine wakes")
	m.breaks()
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.delivered(2, now)
	m.listedAll(2, now)
	check.Equal(t, text(m), "begin ", "%s")
}

// Reads in a row that do not confirm a begin have the set read again after some 8 s, and then each half of a minute.
func TestMachine_ReadsInVain(t *testing.T) {
	m, now := newMachine(1, true), time.Unix(1000, 0)
	m.granted(0, 0, now)
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.listedAll(1, now)
	from, at := now, []time.Duration(nil)
	for id := uint64(1); id < 20; id++ {
		m.answer(id, Entry{Name: "a"}, true, now)
		if strings.Contains(text(m), "relist") {
			at = append(at, now.Sub(from))
			m.breaks()
			m.put(Entry{Name: "a", Revision: 1}, now)
			m.delivered(1, now)
			m.listedAll(1, now)
		}
		now = m.wake()
		m.tick(now)
	}
	check.Deep(t, at, []time.Duration{7750 * time.Millisecond, 37750 * time.Millisecond, 67750 * time.Millisecond})
}

// Many keys that are not ready are considered again after a pause for each.
func TestMachine_ManyIdle(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	asked := 0
	m.ready = func(e Entry, get func(string) (Entry, bool)) bool {
		asked++
		_, has := get("parent")
		return e.Name == "parent" || !has
	}
	m.granted(0, 0, now)
	m.listedAll(0, now)
	m.put(Entry{Name: "parent", Revision: 1}, now)
	const children = 1100
	for i := range uint64(children) {
		m.put(Entry{Name: fmt.Sprint("child", i), Revision: i + 2}, now)
	}
	m.effects()
	asked = 0
	for i := range uint64(100) {
		m.put(Entry{Name: "parent", Revision: 2000 + i}, now)
	}
	check.Equal(t, asked, 0, "Ready was asked %d times")
	check.Equal(t, m.wake(), now.Add(10*time.Microsecond), "the machine wakes at %v") // one more than 100 were not ready
	now = m.wake()
	m.tick(now)
	check.Equal(t, asked, children, "Ready was asked %d times")
	m.gone("parent", 3000, now)
	m.returned("parent", false, now)
	check.Equal(t, text(m), strings.Repeat("update ", 100)+"cancel ", "%s")
	check.Equal(t, m.wake(), now.Add(10*time.Millisecond), "the machine wakes at %v")
	m.tick(m.wake())
	check.Equal(t, text(m), strings.Repeat("begin ", children), "%s")
}

// A key that this process has completed does not begin while a replica may lag. If it is still there after that, the bucket has
// lost the deletion: a read shows that, and it begins.
func TestMachine_DeletionLost(t *testing.T) {
	m, now := newMachine(1, true), time.Unix(1000, 0)
	m.granted(0, 0, now)
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.listedAll(1, now)
	m.answer(1, Entry{Name: "a", Revision: 1}, true, now)
	m.completes("a", 0)
	m.completed("a", 1, 0, now)
	m.returned("a", true, now)
	m.effects()
	check.Equal(t, m.wake(), now.Add(10*time.Second), "the machine wakes at %v")
	m.breaks()
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.listedAll(1, now)
	m.tick(now.Add(10*time.Second - 1))
	check.Equal(t, text(m), "", "%s")
	now = now.Add(10 * time.Second)
	m.tick(now)
	check.Equal(t, text(m), "read ", "%s")
	m.answer(3, Entry{Name: "a", Revision: 1}, true, now)
	check.Equal(t, text(m), "begin ", "%s")
}
