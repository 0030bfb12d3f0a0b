package mutation_test

var feedPlumbing = plumbing{of: "leader", by: "leader", mutants: []mutant{}}
