"""Text that is kept compressed and goes into gzip files as it is."""

from __future__ import annotations

import gzip
import zlib

from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.formats.chrome.deflated import Deflated, gzip_around

TEXTS = st.one_of(st.binary(max_size=200), st.binary(max_size=20).map(lambda text: text * 5000))


@given(TEXTS, TEXTS, TEXTS)
def test_a_gzip_file_of_three_texts(before: bytes, middle: bytes, after: bytes) -> None:
    packed = Deflated(middle)
    assert packed.text == middle
    file = b"".join(gzip_around(before, packed, after))
    assert gzip.decompress(file) == before + middle + after
    # One member, as readers that stop after the first member need it.
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(file) == before + middle + after
    assert reader.eof
    assert reader.unused_data == b""
    assert b"".join(gzip_around(before, packed, after)) == file
