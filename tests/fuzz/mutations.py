"""Mutations of files: bytes changed anywhere, and contents changed with valid checksums."""

import io
import json
import struct
import warnings
import zipfile

EDGES = (0, 1, -1, 2, 7, 8, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1)
VALUES = (
    *(None, True, False, 0, 1, -1, 3, 2**31, 2**63, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "auto"),
    *("x" * 5000, "\x1b[2J", "=1+1", [], {}, [[]], {"a": 1}, [0] * 50, {"array": "model.mean_"}, {"class": "AdaAM"}),
)


def changed_bytes(content, rng):
    """Change a file in one to four places: flip, set, cut, insert, repeat, or write an extreme number."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        content = _changed_once(content, rng)
    return bytes(content)


def _changed_once(content, rng):
    size = len(content)
    if size == 0:
        return bytearray(rng.bytes(int(rng.integers(1, 50))))
    place = int(rng.integers(size))
    if rng.random() < 0.4:  # headers and directories are at the ends
        place = (
            int(rng.integers(min(size, 300))) if rng.random() < 0.6 else size - 1 - int(rng.integers(min(size, 300)))
        )
    match int(rng.integers(8)):
        case 0 | 1:
            content[place] ^= 1 << int(rng.integers(8))
        case 2:
            content[place] = int(rng.integers(256))
        case 3:
            del content[place:]
        case 4:
            del content[place : place + int(rng.integers(1, 40))]
        case 5:
            content[place:place] = rng.bytes(int(rng.integers(1, 40)))
        case 6:
            start = int(rng.integers(size))
            content[place:place] = content[start : start + int(rng.integers(1, 200))]
        case _:
            number = EDGES[int(rng.integers(len(EDGES)))]
            form = str(rng.choice(["<H", ">H", "<I", ">I", "<Q", ">Q"]))
            width = struct.calcsize(form)
            packed = struct.pack(form, number % 2 ** (8 * width))
            content[place : place + width] = packed
    return content


def changed_text(text, rng):
    """Change one to three words of a text: drop, repeat, swap with another, or replace by an odd value."""
    words = text.replace(",", " , ").replace("\n", " \n ").split(" ")
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(words)))
        match int(rng.integers(4)):
            case 0:
                del words[place]
            case 1:
                words.insert(place, words[int(rng.integers(len(words)))])
            case 2:
                words[place] = str(VALUES[int(rng.integers(len(VALUES)))])
            case _:
                other = int(rng.integers(len(words)))
                words[place], words[other] = words[other], words[place]
        if not words:
            return ""
    return " ".join(words).replace(" , ", ",").replace(" \n ", "\n")


def changed_json(value, rng):
    """Change a value somewhere inside: replace, drop, repeat or swap."""
    places = []

    def visit(owner):
        keys = owner.keys() if isinstance(owner, dict) else range(len(owner))
        for key in list(keys):
            places.append((owner, key))
            if isinstance(owner[key], dict | list):
                visit(owner[key])

    visit(value)
    if not places:
        return value
    owner, key = places[int(rng.integers(len(places)))]
    match int(rng.integers(5)):
        case 0 | 1:
            owner[key] = VALUES[int(rng.integers(len(VALUES)))]
        case 2:
            del owner[key]
        case 3:
            other, place = places[int(rng.integers(len(places)))]
            owner[key], other[place] = other[place], owner[key]
        case _:
            if isinstance(owner[key], int | float) and not isinstance(owner[key], bool):
                owner[key] = owner[key] * int(rng.choice([-1, 2, 1000, 0])) + int(rng.integers(-1, 2))
            else:
                owner[key] = [owner[key]]
    return value


def changed_array(content, rng):
    """Change a .npy file: words of its header, or its bytes."""
    if rng.random() < 0.5:
        return changed_bytes(content, rng)
    end = content.find(b"\n") + 1 or len(content)
    header = content[10:end].decode("latin-1")
    for old, new in (("<f8", "<f4"), ("<f8", "|O"), ("<f8", ">f8"), ("<i8", "<U4"), ("False", "True"), ("(", "(1,")):
        if rng.random() < 0.25:
            header = header.replace(old, new, 1)
    digits = [place for place, sign in enumerate(header) if sign.isdigit()]
    if digits and rng.random() < 0.7:
        place = digits[int(rng.integers(len(digits)))]
        header = header[:place] + str(int(rng.integers(1000))) + header[place + 1 :]
    packed = header.encode("latin-1")
    return content[:8] + struct.pack("<H", len(packed)) + packed + content[end:]


def changed_archive(content, rng):
    """Change a member of a zip archive, or the list of members, and write it with valid checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    place = int(rng.integers(len(members)))
    name, held = members[place]
    match int(rng.integers(8)):
        case 0:
            del members[place]
        case 1:
            members.append((name, held))
        case 2:
            members.append((str(rng.choice(["more.npy", "header.json", "a/../b.npy", "a/", "X.npy"])), held))
        case 3:
            other = int(rng.integers(len(members)))
            members[place] = (name, members[other][1])
        case _:
            changed = _changed_member(name, held, rng)
            members[place] = (name, changed)
    method = zipfile.ZIP_STORED
    if rng.random() < 0.2:
        method = int(rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about duplicate names
        with zipfile.ZipFile(stream, "w", method) as archive:
            for each, inside in members:
                archive.writestr(zipfile.ZipInfo(each), inside, method)  # no date: reproducible bytes
    return stream.getvalue()


def _changed_member(name, content, rng):
    if name.endswith(".json") and rng.random() < 0.85:
        value = json.loads(content)
        for _ in range(rng.integers(1, 3)):
            value = changed_json(value, rng)
        return json.dumps(value).encode()
    if name.endswith(".npy"):
        return changed_array(content, rng)
    return changed_bytes(content, rng)
