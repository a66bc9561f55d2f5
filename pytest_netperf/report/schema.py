"""The JSON Schema of sheet.json, generated from the structs of `pytest_netperf.record.schema`.

The published copy is docs/reference/sheet.schema.json; ``python -m pytest_netperf.report.schema`` prints it, and a test
holds the two equal. Descriptions are the docstrings of the fields, so that they are written once.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from typing import Any

import msgspec

from pytest_netperf.record import schema as record_schema
from pytest_netperf.record.schema import SCHEMA_VERSION, Sheet

__all__ = ["SCHEMA_ID", "sheet_schema", "sheet_schema_text"]

SCHEMA_ID = f"urn:pytest-netperf:schema:sheet:{SCHEMA_VERSION}"


def sheet_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of sheet.json; every key that is always written is required."""
    schema = msgspec.json.schema(Sheet)
    descriptions = _field_descriptions()
    for name, definition in schema["$defs"].items():
        properties = definition.get("properties", {})
        for field, text in descriptions.get(name, {}).items():
            if field in properties:
                properties[field] = {"description": text, **properties[field]}
        if properties and not getattr(record_schema, name).__struct_config__.omit_defaults:
            definition["required"] = list(properties)
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


def sheet_schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(sheet_schema(), indent=2, ensure_ascii=False) + "\n"


def _field_descriptions() -> dict[str, dict[str, str]]:
    """Class -> field -> the docstring that follows it in the source."""
    tree = ast.parse(inspect.getsource(record_schema))
    found: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
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
    print(sheet_schema_text(), end="")
