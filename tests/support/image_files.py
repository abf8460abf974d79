"""Writes image files of every kind, and beside each what Pillow reads from it, as NAME.ppm: image_files.py FOLDER."""

import io
import os
import struct
import sys
import zlib

import numpy
from PIL import Image, ImageOps

HEIGHT, WIDTH = 47, 61


def picture(channels=3, seed=1):
    """Returns smooth waves with some noise, so that no two pixels or channels are alike."""
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    waves = [127 + 80 * numpy.sin(x / (5 + c) + seed) + 40 * numpy.cos(y / (4 + 2 * c)) for c in range(channels)]
    noise = numpy.random.RandomState(seed).randint(-5, 6, (HEIGHT, WIDTH, channels))
    return numpy.clip(numpy.stack(waves, axis=-1) + noise, 0, 255).astype(numpy.uint8)


def exif(orientation, big):
    """Returns an APP1 segment's content with one tag."""
    order = ">" if big else "<"
    return b"Exif\0\0" + struct.pack(
        order + "2sHIHHHIHHI", b"MM" if big else b"II", 42, 8, 1, 0x112, 3, 1, orientation, 0, 0
    )


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png16(samples):
    """Returns a PNG of 16-bit samples [height, width, channels]."""
    height, width, channels = samples.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
    header = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def jpeg(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90, **options)
    return out.getvalue()


def png(image, **options):
    out = io.BytesIO()
    image.save(out, "PNG", **options)
    return out.getvalue()


def of_mode(mode, seed=1):
    channels = len(mode) if mode != "L" else 1
    pixels = picture(channels, seed)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels, mode)


def jpegs():
    colour = of_mode("RGB")
    yield "colour", jpeg(colour)
    yield "colour444", jpeg(colour, subsampling=0)
    yield "progressive", jpeg(colour, progressive=True)
    yield "grey", jpeg(of_mode("L"))
    inks = jpeg(of_mode("CMYK"))
    yield "cmyk", inks
    adobe = inks.index(b"Adobe")
    yield "ycck", inks[: adobe + 11] + b"\2" + inks[adobe + 12 :]
    for orientation in range(1, 9):
        yield f"turned{orientation}", jpeg(colour, exif=exif(orientation, orientation % 2 == 1))


def pngs():
    yield "png-colour", png(of_mode("RGB"))
    yield "png-grey", png(of_mode("L"))
    yield "png-alpha", png(of_mode("RGBA"))
    yield "png-grey-alpha", png(Image.merge("LA", (of_mode("L"), of_mode("L", 2))))
    yield "png-palette", png(of_mode("RGB").quantize(19))
    yield "png-palette-transparent", png(of_mode("RGB").quantize(19), transparency=3)
    yield "png-palette-2-bits", png(of_mode("RGB").quantize(4), bits=2)
    yield "png-bits", png(of_mode("L").convert("1"))
    for orientation in range(1, 9):
        turned = png(of_mode("RGB"), exif=exif(orientation, orientation % 2 == 1))
        yield f"png-turned{orientation}", turned
    # Some programs put it after the pixels.
    start = turned.index(b"eXIf") - 4
    end = start + 12 + int.from_bytes(turned[start : start + 4], "big")
    yield "png-turned-late", turned[:start] + turned[end:-12] + turned[start:end] + turned[-12:]


def deep_pngs():
    """Yields PNGs of 16 bits. Pillow has no rule for them, so the expected values are their high bytes."""
    for channels, name in enumerate(("grey", "grey-alpha", "colour", "alpha"), 1):
        high, low = picture(channels), picture(channels, 3)
        shown = high[:, :, : 3 if channels > 2 else 1]
        yield f"png-16-{name}", png16(high.astype(int) * 256 + low), numpy.broadcast_to(shown, (HEIGHT, WIDTH, 3))


def write_with_pixels(folder, name, content, pixels):
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/{name}", "wb") as file:
        file.write(content)
    Image.fromarray(numpy.ascontiguousarray(pixels)).save(f"{folder}/{name}.ppm")


def main(folder):
    for name, content in (*jpegs(), *pngs()):
        image = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
        write_with_pixels(folder, name, content, numpy.asarray(image.convert("RGB")))
    for name, content, pixels in deep_pngs():
        write_with_pixels(folder, name, content, pixels)


if __name__ == "__main__":
    main(sys.argv[1])
