"""Put the raw numbers of a measurement into a page, as a link that saves them."""

from __future__ import annotations

import base64
import gzip
import json

import attrs

from tfopt_core.records.results import Results
from tfopt_core.report.results.as_json import to_json
from tfopt_core.report.style import units

# A page stays under 500 KB, of which charts and text take up to 200.
PLAIN_BYTES = 150_000
PACKED_BYTES = 200_000


@attrs.frozen
class Download:
    """A file within the page: its name, its address ("data:..."), and its size in words."""

    name: str
    address: str
    size: str


def download_of(results: Results) -> Download | None:
    """Return the JSON of a measurement as a link, packed if it is long; None if it is too long even
    so."""
    text = json.dumps(to_json(results), allow_nan=False, separators=(",", ":")).encode()
    name = f"tfopt-{results.id}.json"
    size = units.bytes_text(len(text))
    if len(text) <= PLAIN_BYTES:
        return Download(name, _address("application/json", text), size)
    # no time stamp: the same results make the same page
    packed = gzip.compress(text, mtime=0)
    if len(packed) > PACKED_BYTES:
        return None
    size = f"{units.bytes_text(len(packed))}, {size} unpacked"
    return Download(f"{name}.gz", _address("application/gzip", packed), size)


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
