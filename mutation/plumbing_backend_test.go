package mutation_test

var backendPlumbing = plumbing{of: "internal/backend", by: "internal/backend", mutants: []mutant{}}
