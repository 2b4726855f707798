"""Judges ISO 20022 messages by the published schemas: judge.py TOOLS MESSAGES

TOOLS is the folder where schemas and validator are kept, fetched once by pip with the checksums of requirements.txt. MESSAGES
is a folder of XML files; each one's namespace says by which schema it is judged. Prints a line for each message that its schema
refuses. Exit code 0: all are valid, 1: some are not, 3: the tools cannot be had.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
SCHEMAS = {
    "pain.001.001.09": "pain001/templates/pain.001.001.09/pain.001.001.09.xsd",
    "pain.002.001.12": "pain001/pain002/schemas/pain.002.001.12.xsd",
}
NOT_HAD = 3


def fetch(tools: Path) -> None:
    """Works beside its goal and takes its place by one rename, so that a fetch that is cut off leaves nothing behind."""
    if tools.exists():
        return
    tools.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tools.parent, prefix=".fetching-") as folder:
        wheels, whole = Path(folder, "wheels"), Path(folder, "whole")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
        only_these = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(REQUIREMENTS)]
        done = subprocess.run([*pip, *only_these, "-d", str(wheels)], capture_output=True, text=True, timeout=300)
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


def folder_of_these_versions(tools: Path) -> Path:
    versions = re.findall(r"^(\S+)==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    return tools / "-".join(f"{name}-{version}" for name, version in versions)


def main() -> int:
    tools, messages = folder_of_these_versions(Path(sys.argv[1])), Path(sys.argv[2])
    try:
        fetch(tools)
        sys.path.insert(0, str(tools))
        import xmlschema

        schemas = {name: xmlschema.XMLSchema(str(tools / path)) for name, path in SCHEMAS.items()}
    except Exception as problem:
        print(f"{type(problem).__name__}: {problem}")
        return NOT_HAD
    refused = 0
    for message in sorted(messages.glob("*.xml")):
        text = message.read_text(encoding="utf-8")
        named = re.search(r'xmlns="urn:iso:std:iso:20022:tech:xsd:([^"]*)"', text)
        schema = schemas.get(named.group(1)) if named else None
        try:
            if schema is None:
                raise ValueError(f"no schema is known for {named.group(1) if named else 'it'}")
            schema.validate(text)
        except Exception as problem:
            refused += 1
            told = getattr(problem, "reason", None) or problem
            print(f"{message.name}: {getattr(problem, 'path', None) or ''} {told}")
    return 1 if refused else 0


sys.exit(main())
