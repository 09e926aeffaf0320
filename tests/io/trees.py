"""Random trees of JSON and XML."""

from __future__ import annotations

from hypothesis import strategies as st

from incmrql.io.xml.values import cdata, node
from incmrql.types.model import PREDEFINED
from incmrql.values import Bag, Data, Value

POSITIONS = {constructor.name: constructor.position for constructor in PREDEFINED["JSON"]}


def json_tree(constructor: str, content: Value) -> Data:
    return Data(constructor, POSITIONS[constructor], content)


JSON_TREES: st.SearchStrategy[Data] = st.recursive(
    st.one_of(
        st.just(json_tree("Jnull", ())),
        st.booleans().map(lambda x: json_tree("Jbool", x)),
        st.integers(-(2**63), 2**63 - 1).map(lambda x: json_tree("Jlong", x)),
        st.floats(allow_nan=False, allow_infinity=False).map(lambda x: json_tree("Jdouble", x)),
        st.text(max_size=8).map(lambda x: json_tree("Jstring", x)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda x: json_tree("JArray", x)),
        st.dictionaries(st.text(max_size=3), inner, max_size=4).map(
            lambda x: json_tree("JObject", Bag(x.items()))
        ),
    ),
    max_leaves=8,
)

_LETTERS = "abcXYZ_é"
NAMES = st.builds(
    "{}{}{}".format,
    st.sampled_from(_LETTERS),
    st.text(st.sampled_from(_LETTERS + "0.-"), max_size=3),
    st.sampled_from(["", "", ":x"]),
)
TEXTS = st.text(
    st.one_of(
        st.sampled_from("\t\n\r <>&\"']"),
        st.characters(
            min_codepoint=32, exclude_categories=["Cs"], exclude_characters="\ufffe\uffff"
        ),
    ),
    max_size=6,
)


@st.composite
def xml_trees(draw: st.DrawFn, depth: int = 3) -> Data:
    """Elements without white space between elements, which parsing would drop."""
    attributes = Bag(draw(st.dictionaries(NAMES, TEXTS, max_size=3)).items())
    inner: list[Data] = []
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        inner.append(draw(xml_trees(depth - 1)))
        if (text := draw(TEXTS)).strip(" \t\r\n"):
            inner.append(cdata(text))
    if not inner and (text := draw(TEXTS)):
        inner.append(cdata(text))
    return node(draw(NAMES), attributes, inner)
