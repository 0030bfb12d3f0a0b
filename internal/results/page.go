package main

import (
	"fmt"
	"regexp"
	"strings"
)

// page is docs/results.md: what is before its first section, and the sections.
type page struct {
	head     string
	sections []section
}

// section is a heading, what a person has written about the settings of the measurement, the command, and
// what the command has written.
type section struct {
	title, about, command string
	stamp, result         string // "" if the command was never run
}

// parts are those of a section. The command is the first line that is nothing but code.
var parts = regexp.MustCompile("(?s)^([^\n]+)\n\n(?:(.*?)\n\n)??`([^`\n]+)`\n(?:\n([^\n]+)\n\n(.+)\n)?$")

func parse(text string) (p page, err error) {
	all := strings.Split(text, "\n## ")
	p.head = all[0]
	for _, each := range all[1:] {
		m := parts.FindStringSubmatch(each)
		if m == nil {
			return page{}, fmt.Errorf("this section has no command, or only a half of a result: %s", each)
		}
		p.sections = append(p.sections, section{m[1], m[2], m[3], m[4], m[5]})
	}
	return p, nil
}

func (p page) String() string {
	var b strings.Builder
	b.WriteString(p.head)
	for _, s := range p.sections {
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		if s.about != "" {
			fmt.Fprintf(&b, "%s\n\n", s.about)
		}
		fmt.Fprintf(&b, "`%s`\n", s.command)
		if s.result != "" {
			fmt.Fprintf(&b, "\n%s\n\n%s\n", s.stamp, s.result)
		}
	}
	return b.String()
}

// anchor is the one that GitHub gives the heading.
func (s section) anchor() string {
	kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(s.title), "")
	return strings.ReplaceAll(kept, " ", "-")
}
