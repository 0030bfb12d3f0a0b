package mutation_test

var jsapiPlumbing = plumbing{of: "internal/jsapi", by: "internal/jsapi", mutants: []mutant{
	{
		name:   "a shared STREAM.INFO answered from before the question",
		edits:  []string{"	r := s.next\n	if r == nil {\n", "	r := s.next\n	if s.flying != nil {\n		r = s.flying\n	}\n	if r == nil {\n"},
		caught: "TestShared_AnswersAreNewer",
	},
	{
		name:   "a reply in a key believed",
		edits:  []string{"	case how.isReply(h):\n		e.Value = nil\n", ""},
		caught: "TestNewEntry_OfReplies",
	},
	{
		name:   "a value without a condition believed",
		edits:  []string{"	case !how.sourced && len(h", "	case how.sourced && len(h"},
		caught: "TestNewEntry_OfReplies",
	},
}}
