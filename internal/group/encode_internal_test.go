package group

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

var ten = Layout{Shards: 25, PageSize: 10}

// A page is stored as this JSON, and comes back with its revision in place of the zeros.
func TestPage_Format(t *testing.T) {
	a, b := Session{"a", 5}, Session{"<b>", 7}
	grants := []Grant{{Owner: a, Since: 3}, {Owner: b, Pred: a}, {Owner: a, Since: 3}, {Owner: a, Since: 3}, {Since: 3, Pred: b}}
	const want = `{"v":1,"page":2,"shards":25,"base":7,"sessions":[{"id":"a","token":5},{"id":"<b>","token":7}],"grants":[[1,3,0,"0,2-3"],[2,0,1,"1"],[0,3,2,"4"]]}`
	check.Equal(t, string(ten.EncodePage(2, 7, grants)), want, "got  %s\nwant %s", want)
	grants[1].Since = 9
	check.Deep(t, check.Got(ten.DecodePage(2, []byte(want), 9))(t), Map{Revision: 9, Base: 7, Grants: grants})
	check.Equal(t, ten.Pages(), 3, "%d pages")
}

// The first page of a group has the number of its shards, and no other value has.
func TestShardsOf(t *testing.T) {
	for value, want := range map[string]int{
		string(ten.EncodePage(0, 7, make([]Grant, 10))): 25,
		string(ten.EncodePage(1, 7, make([]Grant, 10))): 0,
		"": 0, `{"v":1,"page":0,"shards":-1,"base":1}`: 0,
	} {
		shards, err := Layout{Shards: 3, PageSize: 10}.ShardsOf([]byte(value), 9)
		check.Equal(t, shards, want, "%d shards by %s", value)
		check.That(t, (err == nil) == (want > 0), "%v by %s", err, value)
	}
}

// somePage has 1,000 shards of 10 members, in a number of grants at random places.
func somePage(grants int) []Grant {
	rng := rand.New(rand.NewPCG(1, 2))
	var kinds []Grant
	for i := range grants {
		kinds = append(kinds, Grant{
			Owner: Session{fmt.Sprintf("worker-6f7d8b9c5d-%05d", i%10), uint64(1_000_000 + i%10)},
			Since: uint64(1_000_000 + i), Pred: Session{fmt.Sprintf("worker-6f7d8b9c5d-%05d", (i+1)%10), uint64(1_000_000 + (i+1)%10)},
		})
	}
	all := make([]Grant, MaxPageSize)
	for i, p := range rng.Perm(len(all)) {
		all[i] = kinds[p%grants]
	}
	return all
}

// The size of a page is bounded, also where no shards beside each other have the same grant. The largest page can
// be decoded.
func TestPage_Size(t *testing.T) {
	l := Layout{Shards: MaxPages * MaxPageSize, PageSize: MaxPageSize}
	largest := make([]Grant, MaxPageSize)
	for i := range largest {
		id := strings.Repeat("\x01", record.MaxID-4) + strconv.Itoa(1000+i)
		largest[i] = Grant{Owner: Session{id, record.LastToken}, Since: 1 << 62, Pred: Session{id, record.LastToken - 1}}
	}
	for _, c := range []struct {
		grants []Grant
		below  int
	}{{make([]Grant, MaxPageSize), 110}, {somePage(10), 5_000}, {somePage(100), 8_000}, {somePage(1000), 40_000}, {largest, maxSize}} {
		value := l.EncodePage(99, 1<<60, c.grants)
		check.That(t, len(value) < c.below, "%d bytes, want less than %d", len(value), c.below)
		m := Map{Revision: 1 << 62, Base: 1 << 60, Grants: c.grants}
		got, err := l.DecodePage(99, value, 1<<62)
		m.Resolve()
		check.That(t, err == nil && reflect.DeepEqual(got, m), "a page of %d bytes does not come back: %v", len(value), err)
	}
}

// A member's value is stored as this JSON, and comes back as it was.
func TestMember_Format(t *testing.T) {
	for want, p := range map[string]Published{
		`{"v":1,"weight":1}`: {Reports: make([]Report, 3), Weight: 1},
		`{"v":1,"seen":{"0":7,"2":9},"busy":"3-4,10,24","late":"3,9","idle":true,"unbegun":"5-7","left":true,"weight":2,"most":10,"hold":"30s","program":"example.com/a","value":"10.0.0.1:80"}`: {
			Reports: []Report{{Seen: 7, Busy: []int{3, 4}, Left: true}, {Busy: []int{0}, Left: true}, {Seen: 9, Busy: []int{4}, Left: true}},
			Late:    []int{3, 9}, Idle: true, Unbegun: []int{5, 6, 7}, Weight: 2, Most: 10, Hold: 30 * time.Second, Program: "example.com/a", Value: "10.0.0.1:80",
		},
		`{"v":1,"weight":1000000,"hold":"24h0m0s","value64":"/w=="}`: {Reports: make([]Report, 3), Weight: MaxWeight, Hold: MaxHold, Value: "\xff"},
	} {
		check.Equal(t, string(check.Got(ten.EncodeMember(p))(t)), want, "got  %s\nwant %s", want)
		check.Deep(t, check.Got(ten.DecodeMember([]byte(want), 9))(t), p)
		later := strings.Replace(want, `"weight"`, `"later":{"of":1},"weight"`, 1) // a field of a later version of this format
		check.Deep(t, check.Got(ten.DecodeMember([]byte(later), 9))(t), p)
	}
	for size, want := range map[int]int{MaxProgram: MaxProgram, MaxProgram + 1: 0} { // a name that is too long counts as none
		value := check.Got(ten.EncodeMember(Published{Weight: 1, Program: strings.Repeat("x", size)}))(t)
		check.Equal(t, len(check.Got(ten.DecodeMember(value, 9))(t).Program), want, "%d bytes")
	}
}

// What a member publishes has a bound, which its reports and its value share.
func TestMember_Size(t *testing.T) {
	p := Published{Reports: make([]Report, 3), Weight: 1, Value: strings.Repeat("x", wire.MaxValue-len(`{"v":1,"weight":1,"value":""}`))}
	value := check.Got(ten.EncodeMember(p))(t)
	check.Deep(t, check.Got(ten.DecodeMember(value, 9))(t), p)
	p.Reports[1] = Report{Seen: 5, Busy: []int{2}}
	value, err := ten.EncodeMember(p)
	check.That(t, value == nil && err != nil && strings.HasPrefix(err.Error(), "a member publishes 65563 bytes, which is more than 65536: "), "%v", err)
	l := Layout{Shards: 100_000, PageSize: 1000}
	p = Published{Reports: make([]Report, 100), Weight: 1}
	for i := range l.Shards {
		p.Unbegun = append(p.Unbegun, i)
	}
	check.Deep(t, check.Got(l.DecodeMember(check.Got(l.EncodeMember(p))(t), 9))(t), p) // as one range
	var even []int
	for i := 0; i < l.Shards; i += 2 {
		even = append(even, i)
	}
	p.Unbegun = even
	value = check.Got(l.EncodeMember(p))(t)
	got := check.Got(l.DecodeMember(value, 9))(t).Unbegun
	check.That(t, len(value) < 4200 && len(got) > 800 && slices.Equal(got, even[:len(got)]), "%d shards in %d bytes", len(got), len(value))
}

// A registry is stored as this JSON, and comes back as it was.
func TestRegistry_Format(t *testing.T) {
	for want, r := range map[string]Registry{
		`{"v":1,"shards":1,"page":1,"base":1,"members":[]}`: {Layout: Layout{1, 1}, Base: 1, Members: []Session{}},
		`{"v":1,"shards":100000,"page":1000,"base":2305843009213693952,"members":[{"id":"a","token":5},{"id":"b","token":4611686014132420608}]}`: {
			Layout: Layout{100_000, 1000}, Base: record.MaxMinToken, Members: []Session{{"a", 5}, {"b", record.LastToken}},
		},
		`{"v":1,"shards":9,"page":1,"base":1,"members":[{"id":"a","token":5}],"drained":["a"],"asked":{"0":"a","8":"a"}}`: {
			Layout: Layout{9, 1}, Base: 1, Members: []Session{{"a", 5}}, Drained: []string{"a"}, Asked: map[int]string{0: "a", 8: "a"},
		},
	} {
		check.Equal(t, string(r.Encode()), want, "got  %s\nwant %s", want)
		check.Deep(t, check.Got(DecodeRegistry([]byte(want)))(t), r)
	}
}

// wishes returns members of a JSON object, each with a shard.
func wishes(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`"%d":"a"`, i))
	}
	return all
}

// What no member has written is an error that says what is wrong.
func TestDecode_Junk(t *testing.T) {
	for kind, cases := range map[string]map[string]string{
		"page": {
			"": "unexpected end of JSON input", "null": "format 0", `{"v":0}`: "format 0", `{"v":-1}`: "format -1", `{"v":"1"}`: "cannot unmarshal string",
			strings.Repeat(" ", maxSize+1):                                         "4194305 bytes",
			`{"v":1,"page":1,"shards":25}`:                                         "page 1 of 25 shards, not page 2 of 25",
			`{"v":1,"page":2,"shards":26}`:                                         "page 2 of 26 shards, not page 2 of 25",
			`{"v":1,"page":2,"shards":25}`:                                         "shard 0 has no grant",
			`{"v":1,"page":2,"shards":25,"grants":7}`:                              "cannot unmarshal number",
			page(`{"id":"","token":1}`, ``):                                        "ID of 0 bytes",
			page(`{"id":"`+strings.Repeat("x", record.MaxID+1)+`","token":1}`, ``): "ID of 257 bytes",
			page(`{"id":"a","token":0}`, ``):                                       `token 0 of "a"`,
			page(`{"id":"a","token":4611686014132420609}`, ``):                     `token 4611686014132420609 of "a"`,
			page(``, `[1,0,0,"0-4"]`):                                              "sessions 1 and 0 of 0",
			page(``, `[0,0,1,"0-4"]`):                                              "sessions 0 and 1 of 0",
			page(``, `[-1,0,0,"0-4"]`):                                             "sessions -1 and 0 of 0",
			page(``, `[0,0,-1,"0-4"]`):                                             "sessions 0 and -1 of 0",
			page(``, `[0,10,0,"0-4"]`):                                             "a grant of revision 10 at revision 9",
			page(``, `[0,-1,0,"0-4"]`):                                             "cannot unmarshal number -1",
			page(``, `[0,0,0]`):                                                    "a grant of 3 fields",
			page(``, `[0,0,0,"0-4",0]`):                                            "a grant of 5 fields",
			page(``, `{}`):                                                         "cannot unmarshal object",
			page(``, `[0,0,0,"0-3"]`):                                              "shard 4 has no grant",
			page(``, `[0,0,0,"0-4"],[0,1,0,"2"]`):                                  "shard 2 has two grants",
			page(``, `[0,0,0,"0-5"]`):                                              `"0-5" is no range of 0 to 4`,
			page(``, `[0,0,0,"0-99999999999999999999"]`):                           `"0-999999999999999999`,
			page(``, `[0,0,0,""]`):                                                 `"" is no range of 0 to 4`,
			page(``, `[0,0,0,"0,"]`):                                               `"" is no range of 1 to 4`,
			page(``, `[0,0,0,"x"]`):                                                `"x" is no range of 0 to 4`,
			page(``, `[0,0,0,"0-x"]`):                                              `"0-x" is no range of 0 to 4`,
			page(``, `[0,0,0,"-1"]`):                                               `"-1" is no range of 0 to 4`,
			page(``, `[0,0,0,"3-2"]`):                                              `"3-2" is no range of 0 to 4`,
			page(``, `[0,0,0,"0,0-4"]`):                                            `"0-4" is no range of 1 to 4`,
		},
		"member": {
			"{": "unexpected end of JSON input", "{}": "format 0", `{"v":1}`: "weight 0", `{"v":1,"weight":-1}`: "weight -1", `{"v":1,"weight":1000001}`: "weight 1000001",
			strings.Repeat(" ", wire.MaxValue+1):                      "65537 bytes",
			`{"v":1,"weight":1,"most":-1}`:                            "at most -1 shards",
			`{"v":1,"weight":1,"hold":"-1s"}`:                         "hold -1s",
			`{"v":1,"weight":1,"hold":"24h1s"}`:                       "hold 24h0m1s",
			`{"v":1,"weight":1,"hold":"` + strings.Repeat("y", 50000): "unexpected end of JSON input",
			`{"v":1,"weight":1,"hold":"soon"}`:                        `hold "soon"`,
			`{"v":1,"weight":1,"seen":{"3":1}}`:                       "page 3 of 3",
			`{"v":1,"weight":1,"seen":{"-1":1}}`:                      "page -1 of 3",
			`{"v":1,"weight":1,"seen":{"x":1}}`:                       "cannot unmarshal number x",
			`{"v":1,"weight":1,"seen":{"0":10}}`:                      "has seen revision 10 at revision 9",
			`{"v":1,"weight":1,"busy":"25"}`:                          `"25" is no range of 0 to 24`,
			`{"v":1,"weight":1,"late":"25"}`:                          `"25" is no range of 0 to 24`,
			`{"v":1,"weight":1,"unbegun":"3,2"}`:                      `"2" is no range of 4 to 24`,
			`{"v":1,"weight":1,"value64":"?"}`:                        "value: illegal base64",
		},
		"registry": {
			`{"v":1,"shards":5,"page":5,"asked":{"5":"a"}}`:                                         "shard 5 of 5 is asked for",
			`{"v":1,"shards":5,"page":5,"asked":{"-1":"a"}}`:                                        "shard -1 of 5 is asked for",
			`{"v":1,"shards":2000,"page":1000,"asked":{` + strings.Join(wishes(1001), ",") + `}}`:   "0 drained members, 1001 shards asked for",
			`{"v":1,"shards":5,"page":5,"drained":["a"` + strings.Repeat(`,"a"`, MaxMembers) + `]}`: "2001 drained members",
			"[]": "cannot unmarshal array", `{"v":1}`: "pages of 0 shards", `{"v":1,"shards":5,"page":5}`: "no base",
			`{"v":1,"shards":5,"page":-1}`:                                                                       "pages of -1 shards",
			`{"v":1,"shards":5,"page":1001}`:                                                                     "pages of 1001 shards",
			`{"v":1,"shards":0,"page":10}`:                                                                       "0 shards on pages of 10",
			`{"v":1,"shards":-1,"page":10}`:                                                                      "-1 shards on pages of 10",
			`{"v":1,"shards":1001,"page":10}`:                                                                    "1001 shards on pages of 10",
			`{"v":1,"shards":5,"page":10,"base":2305843009213693953}`:                                            "base 2305843009213693953",
			`{"v":1,"shards":5,"page":10,"members":[{"id":"a"}]}`:                                                `token 0 of "a"`,
			`{"v":1,"shards":5,"page":10,"members":[{"id":"a","token":1},{"id":"a","token":2}]}`:                 `"a" is a member twice`,
			`{"v":1,"shards":5,"page":10,"members":[{"id":"a","token":1}` + strings.Repeat(`,{}`, 2000) + `]}`:   "2001 members",
			`{"v":1,"shards":5,"page":10,"members":[{"id":"a","token":1}` + strings.Repeat(` `, maxSize) + `]}}`: "4194366 bytes",
		},
	} {
		for value, text := range cases {
			check.Says(t, decodeKind(kind, []byte(value)), ErrForeign, text)
		}
		check.Says(t, decodeKind(kind, []byte(`{"v":2,"page":"two","weight":{},"shards":"many"}`)), ErrLaterFormat, "format 2")
	}
}

// page returns a page with these sessions and grants.
func page(sessions, grants string) string {
	return `{"v":1,"page":2,"shards":25,"sessions":[` + sessions + `],"grants":[` + grants + `]}`
}

func decodeKind(kind string, value []byte) error {
	switch kind {
	case "page":
		return check.Err(ten.DecodePage(2, value, 9))
	case "member":
		return check.Err(ten.DecodeMember(value, 9))
	default:
		return check.Err(DecodeRegistry(value))
	}
}

// Whatever is stored, decoding it does not panic, and what it yields survives being written.
func FuzzDecodeGroup(f *testing.F) {
	f.Add([]byte(page(`{"id":"a","token":5},{"id":"b","token":1}`, `[1,3,0,"0,2-3"],[2,0,1,"1"],[0,3,2,"4"]`)))
	f.Add([]byte(`{"v":1,"seen":{"0":7,"2":9},"busy":"3-4,10,24","late":"3,9","idle":true,"unbegun":"5-7","left":true,"weight":2,"most":10,"hold":"30s","value":"10.0.0.1:80"}`))
	f.Add([]byte(`{"v":1,"weight":1,"value64":"/w=="}`))
	f.Add([]byte(`{"v":1,"shards":100000,"page":1000,"base":7,"members":[{"id":"a","token":5}]}`))
	f.Add([]byte(`{"v":1,"shards":10,"page":10,"base":7,"members":[],"drained":[],"asked":{}}`))
	f.Add([]byte(`{"v":1,"shards":10,"page":10,"base":7}`))
	f.Add([]byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := ten.DecodePage(2, data, 9); err == nil {
			check.Deep(t, check.Got(ten.DecodePage(2, ten.EncodePage(2, m.Base, m.Grants), 9))(t), m)
		}
		if p, err := ten.DecodeMember(data, 9); err == nil {
			check.Deep(t, check.Got(ten.DecodeMember(check.Got(ten.EncodeMember(p))(t), 9))(t), p)
		}
		if r, err := DecodeRegistry(data); err == nil {
			check.Deep(t, check.Got(DecodeRegistry(r.Encode()))(t), r)
		}
	})
}

// What an assigner publishes names a revision for each page, none of which is later than its record.
func TestAssigner_Format(t *testing.T) {
	l := Layout{Shards: 25, PageSize: 10}
	want := `{"v":1,"pages":[7,0,9]}`
	check.Equal(t, string(EncodeAssigner([]uint64{7, 0, 9}, Programs{{"example.com/a", "w1"}})), want, "%s")
	check.Deep(t, check.Got(l.DecodeAssigner([]byte(want), 9))(t), []uint64{7, 0, 9})
	for _, junk := range []string{"", "{}", `{"v":1}`, `{"v":1,"pages":[7,0]}`, `{"v":1,"pages":[7,0,9,9]}`, `{"v":1,"pages":[7,0,10]}`, `{"v":1,"pages":[7,0,-1]}`} {
		_, err := l.DecodeAssigner([]byte(junk), 9)
		check.Is(t, err, ErrForeign)
	}
}

// An assigner names the programs of the members only if they differ, each once with its first member, and not too many. A reader
// takes no more, and an older reader ignores them.
func TestPrograms_Format(t *testing.T) {
	var p Programs
	p.Add("", "w0")
	p.Add("example.com/b", "w1")
	check.That(t, !p.Differ(), "%v differ", p)
	p.Add("example.com/a", "w2")
	p.Add("example.com/b", "w3")
	check.That(t, p.Differ(), "%v do not differ", p)
	check.Equal(t, p.String(), `"example.com/b" of member "w1", "example.com/a" of member "w2"`, "%s")
	value := EncodeAssigner([]uint64{7, 0, 9}, p)
	check.Equal(t, string(value), `{"v":1,"pages":[7,0,9],"programs":[{"name":"example.com/b","member":"w1"},{"name":"example.com/a","member":"w2"}]}`, "%s")
	check.Deep(t, DecodePrograms(value), p)
	check.Deep(t, check.Got(Layout{Shards: 25, PageSize: 10}.DecodeAssigner(value, 9))(t), []uint64{7, 0, 9})
	later := []byte(`{"v":1,"pages":[7,0,9],"programs":"of a later format"}`)
	check.Deep(t, check.Got(Layout{Shards: 25, PageSize: 10}.DecodeAssigner(later, 9))(t), []uint64{7, 0, 9})

	many := append(Programs{{strings.Repeat("x", MaxProgram+1), "w"}, {"example.com/a", strings.Repeat("x", record.MaxID+1)}}, p...)
	for i := range 2 * maxPrograms {
		many = append(many, Program{fmt.Sprint("example.com/", i), "w"})
	}
	got := DecodePrograms(EncodeAssigner(nil, many))
	check.That(t, len(got) == maxPrograms && slices.Equal(got[:2], p), "%v", got)
	for _, junk := range []string{"", "{", `{"v":1}`, `{"v":2,"programs":[{"name":"a","member":"w1"},{"name":"b","member":"w2"}]}`, `{"v":1,"programs":[{"name":"a","member":"w1"},{"name":"a","member":"w2"}]}`} {
		check.That(t, DecodePrograms([]byte(junk)) == nil, "%s has programs", junk)
	}
}
