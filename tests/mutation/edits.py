"""Small wrong edits of a module's syntax tree: what a tired programmer might have written.

Each edit replaces one expression or statement by another that still compiles.  Docstrings,
annotations, error messages and `assert` are left alone: nobody's answer depends on them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_WORDS: Final = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of a module's text, by its offsets, and what takes its place."""

    line: int
    start: int
    end: int
    old: str
    new: str

    def apply_to(self, text: str) -> str:
        """The module with this edit."""
        return text[: self.start] + self.new + text[self.end :]

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"line {self.line}: {old[:70]} -> {new[:70]}"


def edits(text: str) -> list[Edit]:
    """All edits of a module, in the order of its text."""
    finder = _Finder(text)
    finder.visit(ast.parse(text))
    return sorted(finder.edits, key=lambda edit: (edit.start, edit.end, edit.new))


class _Finder(ast.NodeVisitor):
    """Collects the edits of the functions of a module."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.edits: list[Edit] = []
        self._inside = 0
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._rows = text.splitlines()

    def _offset(self, line: int, column: int) -> int:
        prefix = self._rows[line - 1].encode()[:column].decode()
        return self._lines[line - 1] + len(prefix)

    def _replace(self, node: ast.expr | ast.stmt, new: str) -> None:
        if not self._inside or node.end_lineno is None or node.end_col_offset is None:
            return
        start = self._offset(node.lineno, node.col_offset)
        end = self._offset(node.end_lineno, node.end_col_offset)
        old = self.text[start:end]
        if old != new:
            self.edits.append(Edit(node.lineno, start, end, old, new))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in ("__repr__", "__str__"):
            return
        self._inside += 1
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        for statement in body:
            self.visit(statement)
        self._inside -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Left alone."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """`strict=` of `zip` asserts that lengths are equal, and is left alone like `assert`."""
        if node.arg != "strict":
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """An error that is not raised; what it says is left alone."""
        self._replace(node, "pass")

    def visit_If(self, node: ast.If) -> None:
        self._replace(node.test, "True")
        self._replace(node.test, "False")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
            self._replace(node, _text_of(node, ops=[_COMPARISONS[type(node.ops[0])]()]))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        words = isinstance(node.left, ast.JoinedStr) or isinstance(node.right, ast.JoinedStr)
        if type(node.op) in _OPERATORS and not words:
            self._replace(node, _text_of(node, op=_OPERATORS[type(node.op)]()))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._replace(node, f"({_text_of(node, op=other)})")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self._replace(node, ast.unparse(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self._replace(node, str(not node.value))
            case int():
                self._replace(node, str(node.value + 1))
            case _:
                pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A text: its words are left alone."""

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _WORDS:
            other = ast.Name(_WORDS[node.func.id], ast.Load())
            self._replace(node, _text_of(node, func=other))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call for its effect, left out."""
        if isinstance(node.value, ast.Call):
            self._replace(node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace(node, "pass")
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._replace(node.iter, f"list({ast.unparse(node.iter)})[1:]")
        self.generic_visit(node)


def _text_of(node: ast.expr, **fields: object) -> str:
    """A node with some of its fields replaced, as text."""
    values = {name: getattr(node, name) for name in node._fields} | fields
    return ast.unparse(type(node)(**values))
