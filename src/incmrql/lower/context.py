"""The state of one lowering: the dialect, names, and the expressions left to Python, with why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sqlglot import exp

from incmrql.algebra.term import Scan
from incmrql.lower import shapes, tree
from incmrql.lower.literals import constant
from incmrql.lower.shapes import Cell, Env, GroupBag, Hidden, NotNative, Parts, Shape
from incmrql.lower.tree import Dialect
from incmrql.reference import Environment, evaluate, new_world
from incmrql.reference.environment import EMPTY_SCRIPT
from incmrql.types import typed
from incmrql.types.model import LONG, Type
from incmrql.types.walk import free_variables, is_random, map_children, nodes, root_variable
from incmrql.values import Value

# --- Reasons for Python ---

BEYOND_ROWS: Final = "an aggregate that looks at more than its own rows"
"""Why an expression over the rows of a group has no form of its own."""


def python_reason(
    expr: typed.PythonCall
    | typed.Navigate
    | typed.MakeData
    | typed.Repeat
    | typed.Trace
    | typed.Read
    | typed.Window,
) -> str:
    """Why a construct has no form in SQL."""
    match expr:
        case typed.PythonCall(name):
            return f'Python function "{name}"'
        case typed.Navigate():
            return "a step into a tree"
        case typed.MakeData(constructor):
            return f"a value of data type {constructor.owner}"
        case typed.Repeat():
            return "a loop inside a row"
        case typed.Trace():
            return "trace shows values as they are met"
        case typed.Read():
            return "a source inside a row"
        case typed.Window():
            return "functions of windows"


def construct_name(expr: typed.Expr) -> str:
    """The name of a construct for the message that it has no native form."""
    match expr:
        case typed.Builtin(function):
            return function
        case typed.Arithmetic(op) | typed.Compare(op):
            return f"{op} on {expr.type}"
        case typed.Cast(operand) | typed.Widen(operand):
            return f"conversion from {operand.type} to {expr.type}"
        case _:
            return type(expr).__name__


# --- The context ---


PYTHON_PREFIX = "python_"

Lower: TypeAlias = Callable[[typed.Expr, Env, "Context"], Shape]


@dataclass(frozen=True, slots=True)
class PythonExpression:
    """An expression that runs in Python: a function of these parameters, and the reason."""

    name: str
    parameters: tuple[typed.Variable, ...]
    body: typed.Expr
    reason: str


@dataclass(frozen=True, slots=True)
class SumWindow:
    """The bits of doubles that an exact sum keeps: `limbs` of 32 bits, the last worth 2^lowest."""

    lowest: int
    limbs: int


NARROW = SumWindow(-96, 5)
"""From 2^-96 to 2^64: what measurements and prices need.  A value outside is detected."""
WIDE = SumWindow(-1088, 66)
"""All finite doubles."""


@dataclass(slots=True)
class Context:
    """The state of one lowering.

    `lower` is the lowering of expressions; its own modules call it through this field, to avoid
    import cycles.
    """

    lower: Lower
    dialect: Dialect
    script: typed.Script = EMPTY_SCRIPT
    stored: dict[str, Value] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    fast_sums: bool = False
    window: SumWindow = NARROW
    size_of: Callable[[Scan], int | None] = lambda _scan: None
    """The number of bytes of a source, if known."""
    broadcast: int = 0
    """The maximum size in bytes of a side of a join that is broadcast."""
    python_calls: list[PythonExpression] = field(default_factory=list)
    embeds_values: bool = False
    """Whether values of expressions are written into the text: they may differ in the next run."""
    _last: int = 0

    def fresh(self, hint: str) -> str:
        """A new name that is unique in this query; it needs no quotes."""
        self._last += 1
        letters = "".join([c for c in hint.lower() if c.isascii() and c.isalpha()])
        return f"{letters[:12] or 'c'}{self._last}"

    def tree(self, expr: typed.Expr, env: Env) -> exp.Expression:
        """An expression as one SQL expression."""
        return self.whole(self.lower(expr, env, self))

    def whole(self, shape: Shape) -> exp.Expression:
        """A shape as one SQL expression."""
        match shape:
            case Cell(expression):
                return expression
            case Parts(parts, type_):
                return shapes.struct(tuple(map(self.whole, parts)), type_, self.dialect)
            case GroupBag(side):
                return side.collect(shape, self)
            case Hidden():
                raise NotNative(BEYOND_ROWS)

    def calls_itself(self, name: str) -> bool:
        """Whether a function may call itself, maybe through others."""
        return name in self._callees(name)

    def may_fail(self, name: str) -> bool:
        """Whether a call may raise or never end: recursion and Python functions."""
        return any(
            self.calls_itself(function) or _calls_python(self.script.functions[function].body)
            for function in {name, *self._callees(name)}
        )

    def _callees(self, name: str) -> set[str]:
        """The functions that a function calls, directly or indirectly."""
        callees: set[str] = set()
        pending = [name]
        while pending:
            for node in nodes(self.script.functions[pending.pop()].body):
                if isinstance(node, typed.Call) and node.function not in callees:
                    callees.add(node.function)
                    pending.append(node.function)
        return callees

    def part(self, shape: Shape, index: int) -> Shape:
        """A component or field of a shape."""
        return shapes.part(shape, index)

    def call_python(self, expr: typed.Expr, env: Env, reason: str) -> Cell:
        """A call of a Python function that computes an expression.

        Its arguments are the parts of variables that the expression uses.  An expression that uses
        a variable which has no value here, such as one of the rows around a group, is not native.
        """
        if free_variables(expr) - env.values.keys():
            raise NotNative(BEYOND_ROWS)
        parameters: dict[str, tuple[typed.Variable, typed.Expr]] = {}

        def abstract(part: typed.Expr) -> typed.Expr:
            variable = root_variable(part)
            if variable is not None and variable in env.values:
                parameter = parameters.get(repr(part))
                if parameter is None:
                    new = typed.Variable("p", -len(parameters) - 1, part.type)
                    parameter = parameters[repr(part)] = new, part
                return typed.Var(parameter[0], type=part.type)
            return map_children(abstract, part)

        body = abstract(expr)
        if not parameters and not is_random(body) and self.can_evaluate(body):
            return Cell(constant(self.constant_value(body), expr.type, self.dialect), expr.type)
        # A function without arguments would be evaluated only once.  Give it a constant column,
        # so that each row gets its own random number.
        if not parameters and is_random(body):
            parameters[""] = typed.Variable("p", -1, LONG), typed.Const(0, type=LONG)
        arguments = [self.tree(part, env) for _, part in parameters.values()]
        variables = tuple(variable for variable, _ in parameters.values())
        python_call = self._add_python_call(variables, body, reason)
        return Cell(tree.call(python_call.name, *arguments), expr.type)

    def call_pinned(self, name: str, cells: Sequence[Cell], type_: Type, reason: str) -> Cell:
        """A call of a Python function that all engines share."""
        variables = tuple(
            typed.Variable("p", -number, cell.type) for number, cell in enumerate(cells, 1)
        )
        arguments = tuple(typed.Var(variable, type=variable.type) for variable in variables)
        number = self._add_python_call(
            variables, typed.Builtin(name, arguments, type=type_), reason
        )
        return Cell(tree.call(number.name, *[cell.tree for cell in cells]), type_)

    def stored_placeholder(self, key: str) -> exp.Expression:
        """A placeholder for a value that an earlier item stores, in a text that is only shown."""
        return exp.Var(this=f":{key.partition('@')[0]}")

    def can_evaluate(self, expr: typed.Expr) -> bool:
        """Whether all stored values that an expression uses are known: when a text is run."""
        return all(n.key in self.stored for n in nodes(expr) if isinstance(n, typed.Stored))

    def constant_value(self, expr: typed.Expr) -> Value:
        """The value of an expression that depends on no row."""
        if isinstance(expr, typed.Const):
            return expr.value
        self.embeds_values = True
        world = new_world(self.script, arguments=list(self.arguments))
        world.stored.update(self.stored)
        return evaluate(expr, Environment(world))

    def _add_python_call(
        self, parameters: tuple[typed.Variable, ...], body: typed.Expr, reason: str
    ) -> PythonExpression:
        for existing in self.python_calls:
            if existing.body == body and existing.parameters == parameters:
                return existing
        name = f"{PYTHON_PREFIX}{len(self.python_calls) + 1}"
        call = PythonExpression(name, parameters, body, reason)
        self.python_calls.append(call)
        return call


def _calls_python(expr: typed.Expr) -> bool:
    return any(isinstance(node, typed.PythonCall) for node in nodes(expr))
