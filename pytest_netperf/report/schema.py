"""The JSON Schema of sheet.json and the page about its keys, made from the structs of `pytest_netperf.record.schema`.

The published copies are docs/reference/sheet.schema.json and docs/reference/sheet-fields.md; ``python -m
pytest_netperf.report.schema`` prints the first, with ``--page`` the second, and a test holds them equal. Descriptions
are the docstrings of the structs and their fields, so that they are written once.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import msgspec

from pytest_netperf.record import evidence, identification
from pytest_netperf.record import schema as record_schema
from pytest_netperf.record.schema import SCHEMA_VERSION, Sheet

__all__ = ["SCHEMA_ID", "described", "sheet_fields_text", "sheet_schema", "sheet_schema_text"]

SCHEMA_ID = f"urn:pytest-netperf:schema:sheet:{SCHEMA_VERSION}"
_MODULES = (evidence, identification, record_schema)


def sheet_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of sheet.json; every key that is always written is required."""
    schema = described(Sheet, _MODULES)
    for name, definition in schema["$defs"].items():
        if "properties" in definition and not getattr(record_schema, name).__struct_config__.omit_defaults:
            definition["required"] = list(definition["properties"])
    major = SCHEMA_VERSION.split(".")[0]
    schema["$defs"]["Sheet"]["properties"]["schema_version"]["pattern"] = rf"^{major}\.[0-9]+$"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": f"Acceptance sheet of pytest-netperf, version {SCHEMA_VERSION}",
        "description": (
            "One device of one run. All numbers are in the SI unit named beside them (bit/s, s, bytes, ratio); "
            "a number that does not exist is null."
        ),
        **schema,
    }


def described(root: type, modules: Sequence[ModuleType]) -> dict[str, Any]:
    """JSON Schema of a struct, whose fields have their docstrings in these modules as descriptions."""
    schema = msgspec.json.schema(root)
    descriptions = _field_descriptions(modules)
    for name, definition in schema["$defs"].items():
        properties = definition.get("properties", {})
        for field, text in descriptions.get(name, {}).items():
            if field in properties:
                properties[field] = {"description": text, **properties[field]}
    return schema


def sheet_schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(sheet_schema(), indent=2, ensure_ascii=False) + "\n"


def sheet_fields_text() -> str:
    """The page about every key of a sheet: what it means and who sets it."""
    descriptions = _field_descriptions(_MODULES)
    lines = [
        "# Keys of the sheet",
        "",
        f"Every key of `sheet.json`, schema version {SCHEMA_VERSION}, its meaning and where it comes from. Made from",
        "the structs of `pytest_netperf.record.schema` by `python -m pytest_netperf.report.schema --page`.",
    ]
    for name in sheet_schema()["$defs"]:
        struct = getattr(record_schema, name, None)
        if not (isinstance(struct, type) and issubclass(struct, msgspec.Struct)):
            continue
        meaning, source = _parted(inspect.getdoc(struct) or "")
        lines += ["", f"## {name}", "", meaning, "", "| key | meaning | from |", "| --- | --- | --- |"]
        for field in struct.__struct_fields__:
            text, own = _parted(descriptions.get(name, {}).get(field, ""))
            lines.append(f"| `{field}` | {text} | {own or source} |".replace("  ", " "))
    return "\n".join(lines) + "\n"


def _parted(text: str) -> tuple[str, str]:
    """A description without its sentence that begins with "From", and what that sentence says."""
    match = re.fullmatch(
        r"(.*?)(?:\s*\bFrom ([^.]+(?:\.\w[^.]*)*)\.)?", " ".join(text.replace("``", "`").split()), re.DOTALL
    )
    assert match is not None
    return match[1], match[2] or ""


def _field_descriptions(modules: Sequence[ModuleType]) -> dict[str, dict[str, str]]:
    """Class -> field -> the docstring that follows it in the source; a class has those of its bases too."""
    sources = (ast.parse(inspect.getsource(module)) for module in modules)
    found: dict[str, dict[str, str]] = {}
    for node in (node for source in sources for node in source.body):
        if not isinstance(node, ast.ClassDef):
            continue
        for base in node.bases:
            found.setdefault(node.name, {}).update(found.get(getattr(base, "id", ""), {}))
        for field, text in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found.setdefault(node.name, {})[field.target.id] = re.sub(
                    r"\bNone\b", "null", inspect.cleandoc(str(text.value.value))
                )
    return found


if __name__ == "__main__":
    print(sheet_fields_text() if "--page" in sys.argv[1:] else sheet_schema_text(), end="")
