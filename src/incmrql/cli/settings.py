"""Settings of Spark on the command line, and the modules and paths that a script may use."""

from __future__ import annotations

import click


def spark_settings(given: tuple[str, ...]) -> dict[str, str]:
    """The settings of Spark that `K=V` words spell."""
    found = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{word!r} is not of the form K=V", param_hint="--conf")
        found[name] = value
    return found


allow_import = click.option(
    "--allow-import",
    "modules",
    multiple=True,
    metavar="MODULE",
    help="A Python module that may be imported; may be repeated.",
)
"""The option of commands that import nothing by themselves."""

allow_path = click.option(
    "--allow-path",
    "allowed",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="A folder or file that the script may read and write, and no others; may be repeated.",
)
"""The option that limits the paths of a script."""
