package mutation_test

var fencePlumbing = plumbing{of: "fence", by: "fence", mutants: []mutant{}}
