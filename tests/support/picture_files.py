"""Writes WebP, GIF, BMP or TIFF files of every kind, and beside each what Pillow reads from it, as NAME.ppm:
picture_files.py webp|gif|bmp|tiff FOLDER."""

import io
import struct
import sys

import numpy
from image_files import HEIGHT, WIDTH, exif, of_mode, picture, write_with_pixels
from PIL import Image, ImageOps
from tiff_writer import tiff


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def frames():
    return [of_mode("RGB", seed) for seed in (1, 2, 3)]


def chunk(kind, content):
    return kind + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def u24(number):
    return struct.pack("<I", number)[:3]


def webp_with_free_canvas():
    """Returns an animation whose first frame begins at column 4 and row 6 of its canvas."""
    frame = saved(of_mode("RGBA"), "WEBP", lossless=True)[12:]
    place = u24(4 // 2) + u24(6 // 2) + u24(WIDTH - 1) + u24(HEIGHT - 1) + u24(100) + b"\0"
    canvas = chunk(b"VP8X", b"\x12\0\0\0" + u24(WIDTH + 9) + u24(HEIGHT + 19))
    content = b"WEBP" + canvas + chunk(b"ANIM", b"\xff\x80\x40\xff\0\0") + chunk(b"ANMF", place + frame) * 2
    return b"RIFF" + struct.pack("<I", len(content)) + content


def webps():
    yield "colour", saved(of_mode("RGB"), "WEBP", lossless=True)
    yield "lossy", saved(of_mode("RGB"), "WEBP", quality=80)
    yield "alpha", saved(of_mode("RGBA"), "WEBP", lossless=True, exact=True)
    yield "lossy-alpha", saved(of_mode("RGBA"), "WEBP", quality=80)
    yield "grey", saved(of_mode("L"), "WEBP", lossless=True)
    yield "flat", saved(Image.new("RGB", (1000, 1000), (1, 2, 3)), "WEBP", lossless=True)
    first, *others = frames()
    yield "animated", saved(first, "WEBP", save_all=True, append_images=others, lossless=True)
    yield "free-canvas", webp_with_free_canvas()
    for orientation in range(1, 9):
        tags = exif(orientation, orientation % 2 == 1)
        yield f"turned{orientation}", saved(of_mode("RGB"), "WEBP", lossless=True, exif=tags)


def with_screen(gif, width, height, left=0, top=0):
    """Returns a GIF of Pillow with another size of its screen and place of its picture."""
    table = 3 << (gif[10] & 7) + 1
    at = gif.index(b",", 13 + table)
    gif = gif[:6] + struct.pack("<HH", width, height) + gif[10:]
    return gif[: at + 1] + struct.pack("<HH", left, top) + gif[at + 5 :]


def without_global_table(gif, local):
    """Returns a GIF of Pillow whose table is local, or absent."""
    bits, table = gif[10] & 7, gif[13 : 13 + (3 << (gif[10] & 7) + 1)]
    rest = gif[13 + len(table) :]
    at = rest.index(b",")
    description = rest[at : at + 9] + bytes([rest[at + 9] | (0x80 | bits if local else 0)])
    return gif[:10] + bytes([gif[10] & 0x7F]) + gif[11:13] + rest[:at] + description + table * local + rest[at + 10 :]


def with_smaller_table(gif):
    """Returns a GIF of Pillow with only the first four colours of its table."""
    return gif[:10] + bytes([gif[10] & 0xF8 | 1]) + gif[11:25] + gif[13 + (3 << (gif[10] & 7) + 1) :]


def gifs():
    palette = of_mode("RGB").quantize(200)
    plain = saved(palette, "GIF", interlace=0)
    few = saved(of_mode("RGB").quantize(5), "GIF")
    yield "palette", plain
    yield "few-colours", few
    yield "interlaced", saved(palette, "GIF", interlace=1)
    yield "grey", saved(of_mode("L"), "GIF")
    yield "bits", saved(of_mode("L").convert("1"), "GIF")
    yield "transparent", saved(palette, "GIF", transparency=7)
    first, *others = frames()
    yield "animated", saved(first, "GIF", save_all=True, append_images=others)
    yield "87a", b"GIF87a" + plain[6:]
    yield "local-table", without_global_table(plain, True)
    yield "no-table", without_global_table(plain, False)
    yield "free-screen", with_screen(plain, WIDTH + 20, HEIGHT + 9, 5, 3)
    yield "free-screen-transparent", with_screen(saved(palette, "GIF", transparency=7), WIDTH + 20, HEIGHT + 9, 5, 3)
    yield "screen-too-small", with_screen(plain, WIDTH - 20, 1, 2, 3)


def known_gifs():
    """Yields a GIF with colours beyond its table, which are black as in PNG; in Pillow they are greys."""
    few = saved(of_mode("RGB").quantize(5), "GIF")
    image = Image.open(io.BytesIO(few))
    wanted = numpy.where(numpy.asarray(image)[:, :, None] < 4, numpy.asarray(image.convert("RGB")), 0)
    yield "colours-beyond-table", with_smaller_table(few), wanted.astype(numpy.uint8)


def bmp(bits, pixels, header=40, compression=0, masks=(), colours=b"", used=0, down=False):
    """Returns a BMP of `pixels` [height, width], numbers of `bits` bits."""
    height, width = pixels.shape
    rows = b""
    for row in pixels if down else pixels[::-1]:
        if bits < 8:
            packed = "".join(format(value, f"0{bits}b") for value in row)
            row = int(packed.ljust(-(-len(packed) // 8) * 8, "0"), 2).to_bytes(-(-len(packed) // 8), "big")
        else:
            row = b"".join(int(value).to_bytes(bits // 8, "little") for value in row)
        rows += row.ljust(-(-len(row) // 4) * 4, b"\0")
    if header == 12:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", header, width, -height if down else height, 1, bits, compression, len(rows),
                           0, 0, used, 0)  # fmt: skip
        head += struct.pack(f"<{len(masks)}I", *masks)
    head = head.ljust(header, b"\0") + colours
    return b"BM" + struct.pack("<IHHI", 14 + len(head) + len(rows), 0, 0, 14 + len(head)) + head + rows


def bmps():
    yield "colour", saved(of_mode("RGB"), "BMP")
    yield "grey", saved(of_mode("L"), "BMP")
    yield "bits", saved(of_mode("L").convert("1"), "BMP")
    yield "palette", saved(of_mode("RGB").quantize(77), "BMP")
    yield "alpha", saved(of_mode("RGBA"), "BMP")
    rgb = picture(3).astype(numpy.uint32)
    words = rgb[:, :, 0] << 16 | rgb[:, :, 1] << 8 | rgb[:, :, 2]
    table = numpy.random.RandomState(1).bytes(256 * 4)
    yield "down", bmp(24, words, down=True)
    yield "32-bits", bmp(32, words | 0x55000000)
    yield "16-bits", bmp(16, words & 0x7FFF)
    yield "565", bmp(16, words & 0xFFFF, compression=3, masks=(0xF800, 0x7E0, 0x1F))
    yield "555-down", bmp(16, words & 0x7FFF, compression=3, masks=(0x7C00, 0x3E0, 0x1F), down=True)
    yield "masks", bmp(32, words << 8, compression=3, masks=(0xFF000000, 0xFF0000, 0xFF00))
    alpha = (0xFF, 0xFF00, 0xFF0000, 0xFF000000)
    yield "masks-alpha", bmp(32, words | 0x77000000, header=108, compression=3, masks=alpha)
    yield "masks-v5", bmp(32, words, header=124, compression=3, masks=(0xFF0000, 0xFF00, 0xFF, 0))
    yield "no-masks", bmp(32, words, compression=3, masks=(0, 0, 0))
    yield "8-bits", bmp(8, words & 255, colours=table)
    yield "8-bits-down", bmp(8, words & 255, colours=table, down=True)
    yield "8-bits-used", bmp(8, words % 100, colours=table[:400], used=100)
    yield "4-bits", bmp(4, words & 15, colours=table[:64])
    yield "1-bit", bmp(1, words & 1, colours=table[:8])
    yield "os2", bmp(24, words, header=12)
    yield "os2-8-bits", bmp(8, words & 255, header=12, colours=table[:768])
    yield "os2-4-bits", bmp(4, words & 15, header=12, colours=table[:48])
    yield "os2-v2", bmp(24, words, header=64)


def saved_tiffs():
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits", "jpeg"):
        yield f"colour-{compression}", saved(of_mode("RGB"), "TIFF", compression=compression)
        yield f"grey-{compression}", saved(of_mode("L"), "TIFF", compression=compression)
    yield "colour-predicted", saved(of_mode("RGB"), "TIFF", compression="tiff_lzw", tiffinfo={317: 2})
    for compression in ("raw", "tiff_ccitt", "group3", "group4"):
        yield f"bits-{compression}", saved(of_mode("L").convert("1"), "TIFF", compression=compression)
    yield "palette", saved(of_mode("RGB").quantize(99), "TIFF", compression="tiff_lzw")
    yield "cmyk", saved(of_mode("CMYK"), "TIFF", compression="tiff_lzw")
    yield "cmyk-jpeg", saved(of_mode("CMYK"), "TIFF", compression="jpeg")
    yield "alpha", saved(of_mode("RGBA"), "TIFF")
    yield "grey-alpha", saved(Image.merge("LA", (of_mode("L"), of_mode("L", 2))), "TIFF")
    first, *others = frames()
    yield "pages", saved(first, "TIFF", save_all=True, append_images=others, compression="tiff_lzw")
    for orientation in range(1, 9):
        yield f"turned{orientation}", saved(of_mode("RGB"), "TIFF", tiffinfo={274: orientation})


def written_tiffs():
    rgb, four = picture(3), picture(4)
    yield "tiled", tiff(rgb, 2, tile=(16, 32))
    yield "tiled-deflate", tiff(rgb, 2, tile=(32, 16), deflate=True)
    yield "tiled-grey", tiff(rgb[:, :, :1], 1, tile=(16, 16), order=">")
    yield "one-tile", tiff(rgb, 2, tile=(64, 64), deflate=True)
    yield "planes", tiff(rgb, 2, planes=True)
    yield "planes-strips", tiff(rgb, 2, planes=True, rows=7)
    yield "strips", tiff(rgb, 2, rows=10, order=">", deflate=True)
    yield "big", tiff(rgb, 2, big=True)
    yield "multiplied", tiff(four, 2, tags={338: 1})
    yield "more-channels", tiff(picture(5), 2, tags={338: (0, 0)})
    yield "white-is-0", tiff(rgb[:, :, :1], 0)
    for bits in (2, 4):
        yield f"grey-{bits}-bits", tiff(rgb[:, :, :1] >> (8 - bits), 1, bits=bits)
    colours = tuple(int(value) for value in numpy.random.RandomState(2).randint(0, 65536, 48))
    yield "palette-4-bits", tiff(rgb[:, :, :1] >> 4, 3, bits=4, tags={320: colours})
    yield "bits-turned-around", tiff(rgb[:, :, :1] >> 7, 1, bits=1, tags={266: 2})


def known_tiffs():
    """Yields TIFFs of which Pillow has no or another rule, with the pixels that are wanted."""
    for order in "<>":
        for channels, photometric, name in ((1, 1, "grey"), (3, 2, "colour"), (4, 2, "alpha")):
            high, low = picture(channels), picture(channels, 3)
            wanted = numpy.broadcast_to(high[:, :, : 3 if channels > 2 else 1], (HEIGHT, WIDTH, 3))
            content = tiff(high.astype(int) * 256 + low, photometric, bits=16, order=order, tags={338: 2} if channels == 4 else {})
            yield f"16-bits-{name}-{'little' if order == '<' else 'big'}", content, wanted
    inks = picture(4)
    ink, black = 255 - inks[:, :, :3].astype(int), 255 - inks[:, :, 3:].astype(int)
    wanted = (2 * ink * black + 255) // 510
    yield "planes-cmyk", tiff(inks, 5, planes=True, tile=(16, 16)), wanted.astype(numpy.uint8)
    yield "planes-tiled", tiff(picture(3), 2, planes=True, tile=(32, 16), deflate=True), picture(3)
    multiplied = numpy.dstack([picture(3) // 2, numpy.full((HEIGHT, WIDTH), 128, numpy.uint8)])
    wanted = numpy.minimum(255, 255 * multiplied[:, :, :3].astype(int) // 128).astype(numpy.uint8)
    yield "planes-multiplied", tiff(multiplied, 2, planes=True, tags={338: 1}), wanted


def main(kind, folder):
    makers = {"webp": [webps], "gif": [gifs], "bmp": [bmps], "tiff": [saved_tiffs, written_tiffs]}[kind]
    for name, content in (file for maker in makers for file in maker()):
        try:
            image = Image.open(io.BytesIO(content))
            # Pillow turns a TIFF when it is read, and old versions would turn it again.
            turned = image if kind == "tiff" else ImageOps.exif_transpose(image)
            pixels = numpy.asarray(turned.convert("RGB"))
        except Exception as error:
            raise ValueError(f"Pillow does not read {name}") from error
        write_with_pixels(folder, name, content, pixels)
    for name, content, pixels in {"gif": known_gifs, "tiff": known_tiffs}.get(kind, list)():
        write_with_pixels(folder, name, content, pixels)


if __name__ == "__main__":
    main(*sys.argv[1:])
