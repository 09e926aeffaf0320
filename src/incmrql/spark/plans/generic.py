"""An analysed plan as data, read object by object over py4j.

This is what stands in where Java code cannot be compiled in the driver's JVM.  It does what
`PlanWalker.java` does, and takes seconds instead of milliseconds: a call to Java takes 0.2 ms, and
a plan of TPC-H takes thousands.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any, Final

from incmrql.catalyst import PlanNode, PlanValue
from incmrql.spark.plans.fields import FIELDS, MOST_ROUNDS

_CATALYST: Final = "org.apache.spark.sql.catalyst"
_KINDS: Final = (
    ("boolean", "java.lang.Boolean"),
    ("text", "java.lang.String"),
    ("text", "org.apache.spark.unsafe.types.UTF8String"),
    ("text", "java.net.URI"),
    ("text", "org.apache.hadoop.fs.Path"),
    ("text", "scala.Enumeration$Value"),
    ("number", "scala.math.BigInt"),
    ("number", "java.math.BigInteger"),
    ("decimal", "scala.math.BigDecimal"),
    ("spark decimal", "org.apache.spark.sql.types.Decimal"),
    ("enum", "java.lang.Enum"),
    ("class", "java.lang.Class"),
    ("expression id", f"{_CATALYST}.expressions.ExprId"),
    ("metadata", "org.apache.spark.sql.types.Metadata"),
    ("option", "scala.Option"),
    ("type", "org.apache.spark.sql.types.DataType"),
    ("plan", f"{_CATALYST}.plans.logical.LogicalPlan"),
    ("expression", f"{_CATALYST}.expressions.Expression"),
    ("tree", f"{_CATALYST}.trees.TreeNode"),
    ("bytes", "scala.collection.immutable.ArraySeq$ofByte"),
    ("map", "scala.collection.Map"),
    ("java map", "java.util.Map"),
    ("set", "scala.collection.Set"),
    ("seq", "scala.collection.Iterable"),
    ("java set", "java.util.Set"),
    ("java seq", "java.lang.Iterable"),
    ("array data", f"{_CATALYST}.util.ArrayData"),
    ("map data", f"{_CATALYST}.util.MapData"),
    ("row", f"{_CATALYST}.InternalRow"),
    ("interval", "org.apache.spark.unsafe.types.CalendarInterval"),
)
"""What kind of object a class is of: the first row wins that is its class or a class above it."""


_LOGICAL: Final = f"{_CATALYST}.plans.logical"
_COMMANDS: Final = ("CommandResult", "ExecuteImmediate", "CompoundBody", "SingleStatement")
"""Parts of the names of operators that run something and are no `Command`."""


def command_in(class_named: Callable[[str], Any], plan: Any) -> str | None:
    """The class of the first operator of a plan that runs something; None in a query."""
    bases = [class_named(f"{_LOGICAL}.{name}") for name in ("Command", "ParsedStatement")]
    operators = [plan]
    for operator in operators:
        name = _simple_name(str(operator.getClass().getName()))
        if any(base.isInstance(operator) for base in bases) or any(
            part in name for part in _COMMANDS
        ):
            return name
        operators += _items(operator.children().iterator())
    return None


class GenericWalker:
    """Reads one plan; `leaves` and `texts` are known afterwards."""

    def __init__(self, class_named: Callable[[str], Any], rules: list[Any], text: str) -> None:
        self._class_named = class_named
        self._rules = rules
        self._kinds = [(kind, class_named(name)) for kind, name in _KINDS]
        self._product = class_named("scala.Product")
        self._user_type = class_named("org.apache.spark.sql.types.UserDefinedType")
        lines = [line.split(" ") for line in FIELDS.splitlines()]
        self._specs = {line[0]: line[1:] for line in lines if "." not in line[0]}
        self._bases = [(class_named(line[0]), line[1:]) for line in lines if "." in line[0]]
        self._kind_by_class: dict[str, str] = {}
        self._expression_numbers: dict[str, int] = {}
        self._table_numbers: dict[str, int] = {}
        self._text_starts: dict[str, tuple[int, int]] = {}
        self.leaves: list[Any] = []
        self.root: Any = None
        self.texts = ""
        if text:
            self._add_text(text)

    def read(self, plan: Any) -> PlanValue:
        """A plan, which is normalised first, or a data type as data."""
        self.root = self._normalize(plan) if self._is_plan(plan) else plan
        return self._value(self.root)

    def _normalize(self, plan: Any) -> Any:
        for _ in range(MOST_ROUNDS):
            before = plan
            for rule in self._rules:
                plan = rule.apply(plan)
            if plan.fastEquals(before):
                return plan
        return plan

    # --- values ---

    def _value(self, value: Any) -> PlanValue:
        if value is None or isinstance(value, bool | int | float | str | bytes | Decimal):
            return value
        if isinstance(value, bytearray):
            return bytes(value)
        name = str(value.getClass().getName())
        match self._kind(name, value):
            case "text":
                return str(value.toString())
            case "number":
                return int(value.toString())
            case "decimal":
                return Decimal(value.toString())
            case "spark decimal":
                return Decimal(value.toJavaBigDecimal())  # py4j makes it one already
            case "enum":
                return str(value.name())
            case "class":
                return str(value.getName())
            case "expression id":
                key = f"{value.id()} {value.jvmId().toString()}"
                return _number(self._expression_numbers, key)
            case "metadata":
                return str(self._metadata(value).json())
            case "option":
                return self._value(value.get()) if value.isDefined() else None
            case "bytes":
                return bytes(value.unsafeArray())
            case "tuple":
                return tuple(self._value(part) for part in _items(value.productIterator()))
            case "map":
                pairs = {str(_text(pair._1())): pair._2() for pair in _items(value.iterator())}
                return self._pairs(pairs)
            case "java map":
                return self._pairs({str(_text(key)): value.get(key) for key in value.keySet()})
            case "set" | "java set" as kind:
                items = _items(value.iterator()) if kind == "set" else iter(value)
                by_text = {_text(item): item for item in items}
                return tuple(self._value(by_text[text]) for text in sorted(by_text))
            case "seq":
                return tuple(self._value(item) for item in _items(value.iterator()))
            case "java seq" | "array":
                return tuple(self._value(item) for item in value)
            case kind:
                return self._object(value, name, kind)

    def _kind(self, name: str, value: Any) -> str:
        kind = self._kind_by_class.get(name)
        if kind is None:
            if name.startswith("["):
                kind = "array"
            elif name.startswith("scala.Tuple"):
                kind = "tuple"
            else:
                own = value.getClass()
                kind = next((k for k, base in self._kinds if base.isAssignableFrom(own)), "other")
            self._kind_by_class[name] = kind
        return kind

    def _metadata(self, metadata: Any) -> Any:
        """Without the number of the Dataset of a column: it differs from run to run."""
        builder = self._class_named("org.apache.spark.sql.types.MetadataBuilder").newInstance()
        builder.withMetadata(metadata)
        return builder.remove("__dataset_id").remove("__col_position").build()

    def _pairs(self, pairs: dict[str, Any]) -> PlanValue:
        return tuple((key, self._value(pairs[key])) for key in sorted(pairs))

    def _typed_value(self, value: Any, type_: Any) -> PlanValue:
        """A value inside of Spark's rows, which do not know their types."""
        if value is None:
            return None
        if isinstance(value, float):
            # py4j sends the shortest text, which stands for another double.
            is_float = str(type_.typeName()) == "float"
            return float(struct.unpack("f", struct.pack("f", value))[0]) if is_float else value
        if self._user_type.isInstance(type_):
            return self._typed_value(value, type_.sqlType())
        if not hasattr(value, "getClass"):
            return self._value(value)
        match self._kind(str(value.getClass().getName()), value):
            case "array data":
                return self._elements(value, type_.elementType())
            case "map data":
                keys = self._elements(value.keyArray(), type_.keyType())
                return tuple(
                    zip(keys, self._elements(value.valueArray(), type_.valueType()), strict=True)
                )
            case "row":
                parts = [field.dataType() for field in type_.fields()]
                return tuple(self._part(value, i, part) for i, part in enumerate(parts))
            case _:
                return self._value(value)

    def _elements(self, array: Any, type_: Any) -> tuple[PlanValue, ...]:
        return tuple(self._part(array, i, type_) for i in range(array.numElements()))

    def _part(self, row: Any, index: int, type_: Any) -> PlanValue:
        return None if row.isNullAt(index) else self._typed_value(row.get(index, type_), type_)

    # --- objects ---

    def _object(self, value: Any, class_name: str, kind: str) -> PlanNode:
        name = _simple_name(class_name)
        spec = self._specs.get(name)
        by_base = False
        if spec is None and kind not in ("plan", "expression", "tree"):
            for base, words in self._bases:
                if base.isInstance(value):
                    spec, by_base = words, True
                    break
        place = self._place(value.origin()) if kind in ("plan", "expression", "tree") else None
        fields: dict[str, PlanValue] = {}
        if kind == "interval":
            for part in ("months", "days", "microseconds"):
                fields[part] = value.getClass().getField(part).get(value)
        elif kind == "type":
            self._add_type_fields(fields, value, class_name)
        elif by_base or self._is_opaque(value, class_name, kind):
            fields["$java"] = class_name
        elif self._product.isInstance(value) and not (spec and spec[0].startswith("=")):
            self._add_product(fields, value, name, kind, spec or [])
        for word in spec or []:
            if word[0] in "=+":
                fields[word[1:]] = self._value(getattr(value, word[1:])())
        if not spec and kind in ("plan", "expression"):
            second = value.otherCopyArgs()
            if not second.isEmpty():
                fields["$second"] = self._value(second)
        if kind == "expression":
            type_ = _type_of(value)
            if type_ is not None:
                fields["$type"] = self._value(type_)
        elif kind == "plan" and value.children().isEmpty():
            self.leaves.append(value)
            fields["$leaf"] = len(self.leaves)
        return PlanNode(name, fields, place)

    def _is_opaque(self, value: Any, class_name: str, kind: str) -> bool:
        if kind in ("plan", "expression") or _simple_name(class_name) in self._specs:
            return False
        known = class_name.startswith(("org.apache.spark.sql.", "scala."))
        return kind == "tree" or not known or not self._product.isInstance(value)

    def _add_type_fields(self, fields: dict[str, PlanValue], type_: Any, class_name: str) -> None:
        if self._user_type.isInstance(type_):
            fields["$java"] = class_name
            fields["sqlType"] = self._value(type_.sqlType())
        elif self._product.isInstance(type_):
            self._add_product(fields, type_, _simple_name(class_name), "type", [])
        else:
            fields["typeName"] = type_.typeName()

    def _add_product(
        self, fields: dict[str, PlanValue], product: Any, name: str, kind: str, spec: list[str]
    ) -> None:
        for i in range(product.productArity()):
            field = str(product.productElementName(i))
            if f"-{field}" in spec:
                continue
            value = product.productElement(i)
            if f"#{field}" in spec:
                fields[field] = _number(self._table_numbers, _text(value))
            elif name == "Literal" and field == "value":
                fields[field] = self._typed_value(value, product.dataType())
            elif name == "LocalRelation" and field == "data":
                rows: Iterable[Any] = _items(value.iterator())
                fields[field] = tuple(self._typed_value(row, product.schema()) for row in rows)
            elif kind == "expression" and self._is_plan(value):
                fields[field] = self._value(self._normalize(value))
            else:
                fields[field] = self._value(value)

    def _is_plan(self, value: Any) -> bool:
        if not hasattr(value, "getClass"):
            return False
        return self._kind(str(value.getClass().getName()), value) == "plan"

    # --- places ---

    def _place(self, origin: Any) -> tuple[int, int, int] | None:
        """The line, start and end in the texts that were met so far, one after the other."""
        parts = (origin.sqlText(), origin.startIndex(), origin.stopIndex(), origin.line())
        if any(part.isEmpty() for part in parts):
            return None
        text, first, last, line = (part.get() for part in parts)
        if text not in self._text_starts:
            self._add_text(text)
        lines, start = self._text_starts[text]
        return line + lines, first + start, last + 1 + start

    def _add_text(self, text: str) -> None:
        self.texts += "\n" if self.texts else ""
        self._text_starts[text] = (self.texts.count("\n"), len(self.texts))
        self.texts += text


def _items(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _text(value: Any) -> str:
    return str(value.toString()) if hasattr(value, "getClass") else str(value)


def _number(numbers: dict[str, int], key: str) -> int:
    return numbers.setdefault(key, len(numbers) + 1)


def _simple_name(class_name: str) -> str:
    return class_name.rpartition(".")[2].rstrip("$").rpartition("$")[2]


def _type_of(expression: Any) -> Any:
    """The type of an expression; None for frames of windows and others that have none."""
    try:
        return expression.dataType()
    except Exception:  # Spark raises exceptions of several classes
        return None
