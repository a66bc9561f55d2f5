"""The JSON Schema of batch.json, made from the structs of `pytest_netperf.batch.summary`.

The published copy is docs/reference/batch.schema.json; ``python -m pytest_netperf.batch.schema`` prints it, and a test
holds both equal.
"""

from __future__ import annotations

import json
from typing import Any

from pytest_netperf.batch import summary
from pytest_netperf.batch.summary import BATCH_VERSION, Batch
from pytest_netperf.report.schema import described

__all__ = ["batch_schema", "batch_schema_text"]


def batch_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of batch.json; every key is always written."""
    schema = described(Batch, [summary])
    for definition in schema["$defs"].values():
        if "properties" in definition:
            definition["required"] = list(definition["properties"])
    version = schema["$defs"]["Batch"]["properties"]["batch_version"]
    version["pattern"] = rf"^{BATCH_VERSION.split('.')[0]}\.[0-9]+$"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:pytest-netperf:schema:batch:{BATCH_VERSION}",
        "title": f"Batch page of pytest-netperf, version {BATCH_VERSION}",
        "description": "One lot. All numbers are in the SI unit named beside them; one that does not exist is null.",
        **schema,
    }


def batch_schema_text() -> str:
    """The schema as it is published."""
    return json.dumps(batch_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(batch_schema_text(), end="")
