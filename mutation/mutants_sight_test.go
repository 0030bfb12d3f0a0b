package mutation_test

// The mutants of the rules for the use of what earlier candidates of the process have read.
var sightMutants = []mutant{
	{
		name:   "the instant of any sighting counts",
		edits:  []string{"	if before.Revision != s.Revision || !before.Same(s) {\n", "	if before.Kind == record.EntryUnseen {\n"},
		caught: "remembered, tries",
	},
	{
		name:   "the instant of another revision counts",
		edits:  []string{"	if before.Revision != s.Revision || !before.Same(s) {\n", "	if before.Kind != s.Kind || before.Rec.Session != s.Rec.Session {\n"},
		caught: "remembered, deleted",
	},
	{
		name:   "the instant of another write with the same revision counts",
		edits:  []string{"	if before.Revision != s.Revision || !before.Same(s) {\n", "	if before.Revision != s.Revision {\n"},
		caught: "transcript remembered",
	},
	{
		name:   "what only the feed has delivered is remembered",
		edits:  []string{"	if m.holds() || m.key.readRevision != m.key.seen.Revision || ", "	if m.holds() || "},
		caught: "transcript remembered",
	},
	{
		name:   "nothing is remembered",
		edits:  []string{"		m.key.recall(m.seenBefore(s, in.Before))\n", "		_ = m.seenBefore(s, in.Before)\n"},
		caught: "transcript remembered",
	},
}
