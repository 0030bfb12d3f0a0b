package mutation_test

var webpagePlumbing = plumbing{of: "internal/webpage", by: "internal/webpage", mutants: []mutant{}}

var healthPlumbing = plumbing{of: "health", by: "health", mutants: []mutant{}}

var metricsPlumbing = plumbing{of: "metrics", by: "metrics", mutants: []mutant{}}

var watchingPlumbing = plumbing{of: "cmd/natsleader", by: "cmd/natsleader", mutants: []mutant{}}
