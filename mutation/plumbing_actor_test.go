package mutation_test

var actorPlumbing = plumbing{of: "leader", by: "leader", mutants: []mutant{}}
