// Copyright The sample-controller authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// mutant is a file with one change in a line that decides something.
type mutant struct {
	file    string // in the project
	line    int
	what    string // was done
	content []byte
}

// opposites are operators, and what a mutant has instead.
var opposites = map[token.Token]token.Token{
	token.LAND: token.LOR, token.LOR: token.LAND, token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
}

// mutantsOf returns the mutants of a Go file: conditions are negated, operators replaced, and calls left out whose result is not used, other
// than those that log.
func mutantsOf(name string, content []byte) ([]mutant, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, 0)
	if err != nil {
		return nil, err
	}
	var all []mutant
	add := func(from, to token.Pos, text, what string) {
		begin, end := files.Position(from).Offset, files.Position(to).Offset
		changed := string(content[:begin]) + text + string(content[end:])
		all = append(all, mutant{name, files.Position(from).Line, what, []byte(changed)})
	}
	text := func(n ast.Node) string {
		return string(content[files.Position(n.Pos()).Offset:files.Position(n.End()).Offset])
	}
	negate := func(condition ast.Expr) {
		if comparison, ok := condition.(*ast.BinaryExpr); ok && !isLogical(comparison.Op) {
			return // Another operator does the same.
		}
		add(condition.Pos(), condition.End(), "!("+text(condition)+")", "negated: "+text(condition))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			negate(n.Cond)
		case *ast.SwitchStmt:
			for _, clause := range n.Body.List {
				for _, condition := range clause.(*ast.CaseClause).List {
					if n.Tag == nil {
						negate(condition)
					}
				}
			}
		case *ast.BinaryExpr:
			if other, ok := opposites[n.Op]; ok {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String(), other.String()+" instead of "+n.Op.String()+": "+text(n))
			}
		case *ast.ExprStmt:
			if call := text(n); !isLog(call) {
				add(n.Pos(), n.End(), "", "left out: "+call)
			}
		case *ast.DeferStmt:
			if call := text(n); !isLog(call) {
				add(n.Pos(), n.End(), "", "left out: "+call)
			}
		}
		return true
	})
	return all, nil
}

func isLogical(operator token.Token) bool { return operator == token.LAND || operator == token.LOR }

// isLog reports whether a call only says or counts something.
func isLog(call string) bool {
	for _, part := range []string{"ogger.", ".Info(", "metrics.", "HandleError", "HandleCrash"} {
		if strings.Contains(call, part) {
			return true
		}
	}
	return false
}
