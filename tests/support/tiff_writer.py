"""Writes TIFF files of kinds that Pillow does not write: tiles, planes, BigTIFF, 16 bits, either byte order."""

import struct
import zlib

import numpy


def packed(rows, bits, order):
    """Returns samples [rows, values] as bytes; each row begins at a byte."""
    if bits == 16:
        return rows.astype(order + "u2").tobytes()
    if bits == 8:
        return rows.astype(numpy.uint8).tobytes()
    planes = numpy.unpackbits(rows.astype(numpy.uint8)[:, :, None], axis=2)[:, :, 8 - bits :]
    return numpy.packbits(planes.reshape(len(rows), -1), axis=1).tobytes()


def pieces_of(plane, tile, rows):
    """Yields the strips or tiles of a plane [height, width, channels]; tiles are filled up with zeros."""
    high, wide = tile or (rows or len(plane), plane.shape[1])
    for top in range(0, plane.shape[0], high):
        for left in range(0, plane.shape[1], wide):
            piece = plane[top : top + high, left : left + wide]
            if tile:
                missing = (high - piece.shape[0], wide - piece.shape[1])
                piece = numpy.pad(piece, ((0, missing[0]), (0, missing[1]), (0, 0)))
            yield piece


def tiff(samples, photometric, bits=8, order="<", big=False, planes=False, tile=None, rows=None, deflate=False, tags=None):
    """Returns a TIFF of `samples` [height, width, channels]. `tile` is (height, width); `rows` are those of a strip;
    `tags` are further ones, of shorts."""
    height, width, channels = samples.shape
    parts = [samples[:, :, i : i + 1] for i in range(channels)] if planes else [samples]
    pieces = [packed(piece.reshape(len(piece), -1), bits, order) for part in parts for piece in pieces_of(part, tile, rows)]
    if tags and tags.get(266) == 2:
        pieces = [bytes(int(f"{byte:08b}"[::-1], 2) for byte in piece) for piece in pieces]
    if deflate:
        pieces = [zlib.compress(piece) for piece in pieces]
    at, places = 16, []
    for piece in pieces:
        places.append(at)
        at += len(piece) + len(piece) % 2
    lengths = [len(piece) for piece in pieces]
    entries = {256: width, 257: height, 258: (bits,) * channels, 259: 8 if deflate else 1, 262: photometric,
               277: channels, 284: 2 if planes else 1, **(tags or {})}  # fmt: skip
    longs = {322: tile[1], 323: tile[0], 324: places, 325: lengths} if tile else {278: rows or height, 273: places, 279: lengths}
    return assembled(pieces, at, entries, longs, order, big)


def assembled(pieces, at, shorts, longs, order, big):
    """Returns the file: header, pieces, values of tags that do not fit into them, directory."""
    number, count, inline = ("Q", "Q", 8) if big else ("I", "H", 4)
    body = b"".join(piece + b"\0" * (len(piece) % 2) for piece in pieces)
    directory = b""
    for tag, value in sorted({**shorts, **longs}.items()):
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        kind, letter = (4, "I") if tag in longs else (3, "H")
        content = struct.pack(f"{order}{len(values)}{letter}", *values)
        if len(content) > inline:
            place = 16 + len(body)
            body += content + b"\0" * (len(content) % 2)
            content = struct.pack(order + number, place)
        directory += struct.pack(order + "HH" + number, tag, kind, len(values)) + content.ljust(inline, b"\0")
    mark = b"II" if order == "<" else b"MM"
    first = 16 + len(body)
    if big:
        header = mark + struct.pack(order + "HHHQ", 43, 8, 0, first)
    else:
        header = (mark + struct.pack(order + "HI", 42, first)).ljust(16, b"\0")
    return header + body + struct.pack(order + count, len(shorts) + len(longs)) + directory + struct.pack(order + number, 0)
