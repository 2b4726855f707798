"""Reads requests with parsers that the host does not use: readers.py TOOLS

A line in is a JSON object: kind (json, xml, form, none), body (base64), path. A line out is an object of what each reader found, as a
sorted list of [place, text]. A text that is not one is an error in words. TOOLS is where libxml2 is kept, fetched once by pip with the
checksums of requirements.txt. Exit code 3: it cannot be had.
"""

import base64
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree

NOT_HAD = 3


def fetch(tools: Path) -> None:
    """Takes its place by one rename, so that a fetch that is cut off leaves nothing behind."""
    if tools.exists():
        return
    tools.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tools.parent, prefix=".fetching-") as folder:
        wheels, whole = Path(folder, "wheels"), Path(folder, "whole")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
        only_these = ["--no-deps", "--only-binary=:all:", "--require-hashes"]
        wanted = ["-r", str(Path(__file__).with_name("requirements.txt")), "-d", str(wheels)]
        done = subprocess.run([*pip, *only_these, *wanted], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"pip download: {done.stderr.strip() or done.stdout.strip()}")
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(whole)
        try:
            whole.rename(tools)
        except OSError:
            if not tools.exists():
                raise


def flat(value, place="", fold=False):
    """Texts as they are, numbers by their digits."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from flat(member, f"{place}/{name.lower() if fold else name}", fold)
    elif isinstance(value, list):
        for at, entry in enumerate(value):
            yield from flat(entry, f"{place}/{at}", fold)
    else:
        yield [place, value if isinstance(value, str) else json.dumps(value)]


class Digits(str):
    """A number as it was written."""


def elements(element, place):
    tag = element.tag.split("}")[-1]
    place = f"{place}/{tag}"
    for name, text in element.attrib.items():
        yield [f"{place}/@{name}", text]
    children = list(element)
    if not children:
        yield [place, element.text or ""]
    for child in children:
        yield from elements(child, place)


def read(request, libxml2):
    body = base64.b64decode(request["body"])
    found = {}
    if request["kind"] == "json":
        loaded = json.loads(body, parse_float=Digits, parse_int=Digits)
        found["json"] = sorted(flat(loaded))
        found["folding"] = sorted(flat(loaded, fold=True))
        twice = []
        json.loads(body, object_pairs_hook=lambda pairs: twice.extend(
            name for at, (name, _) in enumerate(pairs) if name.lower() in [other.lower() for other, _ in pairs[:at]]))
        if twice:
            raise ValueError(f"{twice} stands there twice")
    elif request["kind"] == "xml":
        found["expat"] = sorted(elements(ElementTree.fromstring(body), ""))
        parser = libxml2.XMLParser(resolve_entities=False, no_network=True)
        found["libxml2"] = sorted(elements(libxml2.fromstring(body, parser), ""))
    elif request["kind"] == "form":
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True)
        found["form"] = sorted([f"/{name}", text] for name, text in pairs)
    address = urlsplit(request["path"])
    found["path"] = [[str(at), unquote(part, errors="strict")] for at, part in enumerate(address.path.split("/"))]
    query = parse_qsl(address.query, keep_blank_values=True, strict_parsing=True) if address.query else []
    found["query"] = sorted([name, text] for name, text in query)
    return found


def main():
    tools = Path(sys.argv[1])
    try:
        fetch(tools)
    except Exception as error:
        print(error, file=sys.stderr)
        return NOT_HAD
    sys.path.insert(0, str(tools))
    from lxml import etree

    for line in sys.stdin:
        try:
            answer = read(json.loads(line), etree)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer))
    return 0


sys.exit(main())
