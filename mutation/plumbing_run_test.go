package mutation_test

var runPlumbing = plumbing{of: "cmd/natsleader", by: "cmd/natsleader", mutants: []mutant{}}
