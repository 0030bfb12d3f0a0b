package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

// A mutant is a target with one fault.
type mutant struct {
	id      int
	place   // of a generated mutant: its line in the list of survivors
	pos     token.Position
	copies  []replacement
	tests   []string // of a judge, that reach it
	reached bool     // by a test of any judge
	outcome outcome
	by      string // the test that catches it
}

// A place names a mutant: the function, the operator, the text that it changes, and which of the same text it is.
type place struct {
	function, operator, snippet string
}

// A replacement is the changed text of a function.
type replacement struct {
	fn   *function
	text string
}

// A maker makes the mutants of one function.
type maker struct {
	*target
	fn      *function
	results []*ast.FieldList // of the function and the literals around a node
	errs    int              // how many conditions around a node say that err is not nil
	seen    map[place]int
	done    map[ast.Node]bool
	all     []*mutant
}

// mutants returns the mutants of a function, of which some do not compile.
func (t *target) mutants(fn *function) []*mutant {
	m := &maker{target: t, fn: fn, results: []*ast.FieldList{fn.decl.Type.Results}, seen: map[place]int{}, done: map[ast.Node]bool{}}
	m.walk(fn.decl.Body)
	return m.all
}

func (m *maker) src(n ast.Node) string { return m.source(m.fn.file, n) }

// replace makes a mutant with another text for a node.
func (m *maker) replace(operator string, n ast.Node, to string) {
	m.cut(operator, m.src(n), n, m.offset(n.Pos()), m.offset(n.End()), to)
}

// cut makes a mutant with another text from start to end.
func (m *maker) cut(operator, snippet string, n ast.Node, start, end int, to string) {
	p := place{m.fn.key, operator, squeeze(snippet)}
	m.seen[p]++
	if again := m.seen[p]; again > 1 {
		p.snippet += fmt.Sprintf(" (%d)", again)
	}
	text, from := m.fn.file.text, m.offset(m.fn.decl.Pos())
	m.all = append(m.all, &mutant{
		place: p, pos: m.fset.Position(n.Pos()),
		copies: []replacement{{m.fn, text[from:start] + to + text[end:m.offset(m.fn.decl.End())]}},
	})
}

// squeeze returns the beginning of a text on one line.
func squeeze(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

func (m *maker) walk(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			m.results = append(m.results, n.Type.Results)
			m.walk(n.Body)
			m.results = m.results[:len(m.results)-1]
			return false
		case *ast.BlockStmt:
			m.statements(n.List)
		case *ast.CaseClause:
			m.replace("drop case", n, "")
			m.dropValues(n.List)
			m.statements(n.Body)
		case *ast.CommClause:
			m.replace("drop case", n, "")
			m.statements(n.Body)
		case *ast.IfStmt:
			m.force(n.Cond)
			if saysError(n.Cond) {
				if n.Init != nil {
					m.walk(n.Init)
				}
				m.walk(n.Cond)
				m.errs++
				m.walk(n.Body)
				m.errs--
				if n.Else != nil {
					m.walk(n.Else)
				}
				return false
			}
		case *ast.ForStmt:
			if n.Cond != nil {
				m.replace("never", n.Cond, "(("+m.src(n.Cond)+") && false)")
			}
		case *ast.ReturnStmt:
			m.returns(n)
		case *ast.BinaryExpr:
			m.binary(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT && !m.done[n] {
				m.replace("drop not", n, m.src(n.X))
			}
		case *ast.BasicLit:
			if n.Kind == token.INT && !m.done[n] {
				m.replace("number", n, "("+n.Value+" + 1)")
			}
		case *ast.Ident:
			m.constant(n)
		case *ast.CallExpr:
			m.call(n)
		case *ast.CompositeLit:
			m.fields(n)
		}
		return true
	})
}

// statements deletes each statement, but definitions.
func (m *maker) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt, *ast.BranchStmt, *ast.ForStmt, *ast.RangeStmt:
			m.replace("delete", s, m.uses(s))
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !blank(s.Lhs) {
				m.replace("delete", s, m.uses(s))
			}
		case *ast.ReturnStmt:
			if len(s.Results) == 0 {
				m.replace("delete", s, "_ = 0")
			}
		}
	}
}

func blank(all []ast.Expr) bool {
	for _, e := range all {
		if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}

// uses returns assignments that keep the variables of a deleted node used.
func (m *maker) uses(n ast.Node) string {
	inside := map[types.Object]bool{}
	seen := map[types.Object]bool{}
	out := "_ = 0"
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		if o := m.info.Defs[id]; o != nil {
			inside[o] = true
		}
		v, ok := m.info.Uses[id].(*types.Var)
		if ok && !v.IsField() && v.Pkg() == m.types && v.Parent() != nil && v.Parent() != m.types.Scope() && !inside[v] && !seen[v] {
			seen[v] = true
			out += "; _ = " + v.Name()
		}
		return true
	})
	return out
}

// force makes a condition true, and false.
func (m *maker) force(e ast.Expr) {
	if e == nil || m.done[e] {
		return
	}
	m.done[e] = true
	m.replace("always", e, "("+m.src(e)+" || true)")
	m.replace("never", e, "(("+m.src(e)+") && false)")
}

// dropValues drops one of several values of a case.
func (m *maker) dropValues(list []ast.Expr) {
	for i, e := range list {
		switch {
		case len(list) == 1:
		case i == 0:
			m.cut("drop value", m.src(e), e, m.offset(e.Pos()), m.offset(list[1].Pos()), "")
		default:
			m.cut("drop value", m.src(e), e, m.offset(list[i-1].End()), m.offset(e.End()), "")
		}
	}
}

// returns makes one result after the other the zero value. Beside an error that is not nil nothing reads the other
// results. A zero value beside an error says that the error is not nil.
func (m *maker) returns(n *ast.ReturnStmt) {
	signature := m.results[len(m.results)-1]
	if signature == nil || len(n.Results) == 0 {
		return
	}
	var of []string
	for _, r := range signature.List {
		for range max(1, len(r.Names)) {
			of = append(of, types.ExprString(r.Type))
		}
	}
	zero := func(i int) string { return "*new(" + of[i] + ")" }
	if len(of) != len(n.Results) { // return f() with several results
		var all []string
		for i := range of {
			all = append(all, zero(i))
		}
		m.replace("zero result", n, m.uses(n)+"; return "+strings.Join(all, ", "))
		return
	}
	last := len(of) - 1
	for i, r := range n.Results {
		if i < last && of[last] == "error" && (m.failed(n.Results[last]) || isZero(m.src(r)) && m.src(n.Results[last]) != "nil") {
			ast.Inspect(r, func(n ast.Node) bool { m.done[n] = true; return true })
			continue
		}
		t := m.info.Types[r].Type
		switch text := m.src(r); {
		case isBool(t) && text == "true":
			m.replace("flip", r, "false")
		case isBool(t) && text == "false":
			m.replace("flip", r, "true")
		case isBool(t):
			m.force(r)
		case isZero(text):
		default:
			parts := make([]string, len(of))
			for j, other := range n.Results {
				parts[j] = m.src(other)
			}
			parts[i] = zero(i)
			m.cut("zero result", m.src(n)+fmt.Sprintf(" #%d", i+1), r, m.offset(n.Pos()), m.offset(n.End()), m.uses(r)+"; return "+strings.Join(parts, ", "))
		}
	}
}

// failed reports whether an expression is an error that is not nil.
func (m *maker) failed(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		switch m.src(e.Fun) {
		case "fmt.Errorf", "errors.New":
			return true
		}
	case *ast.Ident:
		return e.Name == "err" && m.errs > 0 || strings.HasPrefix(e.Name, "Err") || strings.HasPrefix(e.Name, "err") && e.Name != "err" && m.global(e)
	case *ast.SelectorExpr:
		return strings.HasPrefix(e.Sel.Name, "Err") && m.global(e.Sel)
	}
	return false
}

func (m *maker) global(id *ast.Ident) bool {
	v, ok := m.info.Uses[id].(*types.Var)
	return ok && !v.IsField() && v.Pkg() != nil && v.Parent() == v.Pkg().Scope()
}

// saysError reports whether a condition says that err is not nil.
func saysError(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	if !ok {
		return false
	}
	x, _ := b.X.(*ast.Ident)
	y, _ := b.Y.(*ast.Ident)
	return b.Op == token.LAND && (saysError(b.X) || saysError(b.Y)) || b.Op == token.NEQ && x != nil && y != nil && x.Name == "err" && y.Name == "nil"
}

func isBool(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

func isZero(text string) bool {
	return text == "nil" || text == "0" || text == `""` || text == "false" || strings.HasSuffix(text, "{}")
}

var otherOperator = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
}

// binary drops an operand of && and ||, and takes the neighbour of another operator.
func (m *maker) binary(n *ast.BinaryExpr) {
	if to, ok := otherOperator[n.Op]; ok {
		m.replace("operator", n, m.src(n.X)+" "+to.String()+" "+m.src(n.Y))
	}
	neutral := map[token.Token]string{token.LAND: " || true)", token.LOR: " && false)"}[n.Op]
	if neutral == "" {
		return
	}
	for _, e := range []ast.Expr{n.X, n.Y} {
		if b, ok := ast.Unparen(e).(*ast.BinaryExpr); ok && b.Op == n.Op {
			continue // its own operands are dropped
		}
		m.replace("drop operand", e, "("+m.src(e)+neutral)
	}
}

// constant changes a constant of the package by one, or a duration by its double.
func (m *maker) constant(id *ast.Ident) {
	c, ok := m.info.Uses[id].(*types.Const)
	if !ok || m.done[id] || c.Pkg() != m.types {
		return
	}
	b, ok := c.Type().Underlying().(*types.Basic)
	switch {
	case !ok || b.Info()&types.IsInteger == 0:
	case c.Type().String() == "time.Duration":
		m.replace("constant", id, "("+id.Name+" * 2)")
	default:
		m.replace("constant", id, "("+id.Name+" + 1)")
	}
}

// call takes one argument for min and max, and flips a boolean argument. The capacity of a slice or a map changes
// nothing.
func (m *maker) call(n *ast.CallExpr) {
	id, _ := n.Fun.(*ast.Ident)
	builtin := ""
	if id != nil {
		if b, ok := m.info.Uses[id].(*types.Builtin); ok {
			builtin = b.Name()
		}
	}
	switch builtin {
	case "min", "max":
		for i, a := range n.Args {
			m.cut("argument", m.src(n)+fmt.Sprintf(" #%d", i+1), n, m.offset(n.Pos()), m.offset(n.End()), "("+m.src(a)+")")
		}
	case "make":
		_, channel := m.info.Types[n].Type.Underlying().(*types.Chan)
		_, slice := m.info.Types[n].Type.Underlying().(*types.Slice)
		for i, a := range n.Args {
			if !channel && i > 0 && (!slice || i > 1) {
				ast.Inspect(a, func(n ast.Node) bool { m.done[n] = true; return true })
			}
		}
	}
	for _, a := range n.Args {
		if value, err := strconv.ParseBool(m.src(a)); err == nil && isBool(m.info.Types[a].Type) {
			m.replace("flip", a, strconv.FormatBool(!value))
		}
	}
}

// fields drops each field of a struct literal.
func (m *maker) fields(n *ast.CompositeLit) {
	t := m.info.Types[n].Type
	if t == nil {
		return
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	if _, ok := t.Underlying().(*types.Struct); !ok {
		return
	}
	for i, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok && !isZero(m.src(kv.Value)) {
			end := m.offset(n.Rbrace)
			if i+1 < len(n.Elts) {
				end = m.offset(n.Elts[i+1].Pos())
			}
			m.cut("drop field", m.src(kv), kv, m.offset(kv.Pos()), end, "")
		}
	}
}
