"""Recorded evidence on disk: atomic writes, versioned records and digests.

The stages write these records to results/GPU/raw:

- check/KERNEL.json: a verdict with the errors of every case;
- time/KERNEL.zip: for each process that timed the rung a folder, named after when it ended, with NVBench's own JSON
  and sample files as NVBench wrote them, and record.json, which says where, when and of what. The folders are packed
  together, as members.tar.xz in the zip, because hundreds of short files that are alike take less room so;
- sanitize/KERNEL.json: what compute-sanitizer's tools found;
- profile/KERNEL.json.xz: for each shape the metrics and the advice of one Nsight Compute report;
- accuracy/KERNEL.json: errors by k;
- sustained/KERNEL.json: launches back to back for seconds, with the energy that they took;
- hardware.json: what the GPU's caches, memory, units and barriers take, sample by sample;
- survey/KERNEL.json.gz: times on drawn products and on data as users have them, with the errors there;
- trials/ENTRY.json.gz: the trials of `snakemake tune`.

A record is replaced as a whole and only by a completed one: a reader sees the old or the new file, never a part. A JSON
record ends with the digest of what stands before it; those from before records had one are read without. Archives and
gzipped files have checksums of their own format, too.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ladder.records.identity import RecordPlace, devices_of, require
from ladder.system.errors import LadderError

SCHEMA_VERSION = 1
LONG = 4096  # bytes, from which on bzip2 packs better than deflate: NVBench's JSON is longer
# pb: text has no groups of four bytes, for which xz looks unless told.
_XZ = [{"id": lzma.FILTER_LZMA2, "preset": 6 | lzma.PRESET_EXTREME, "pb": 0}]
PACKED = {".gz": partial(gzip.compress, mtime=0), ".xz": partial(lzma.compress, filters=_XZ)}
UNPACKED = {".gz": gzip.decompress, ".xz": lzma.decompress}
TOGETHER = "members.tar.xz"  # the one member of an archive whose members are packed together
# what a damaged archive raises
_DAMAGED_ARCHIVE = (
    zipfile.BadZipFile,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a zip entry can carry: archives of equal content are equal bytes


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a kill at any moment, finds the old content or the new and nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")  # one name, so that a killed writer's is used up by the next
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:  # as of a disk that is full
            error.filename = str(path)
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for text in UTF-8."""
    write_bytes(path, text.encode())


def to_json(value: Any) -> str:
    """JSON as records are written: a line for each key and each row of a list; ValueError for NaN and infinities."""
    if not isinstance(value, Mapping):
        return json.dumps(value, allow_nan=False) + "\n"
    lines = [f"{json.dumps(key)}: {_lines(content)}" for key, content in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return "[\n" + ",\n".join(" " + json.dumps(item, allow_nan=False) for item in value) + "\n]"
    return json.dumps(value, allow_nan=False)


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write one JSON record with its digest, packed where its name ends in .gz or .xz; equal ones give equal bytes."""
    content = _signed(to_json({"schema_version": SCHEMA_VERSION, **record})).encode()
    write_bytes(path, PACKED.get(path.suffix, bytes)(content))


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON record, without its digest.

    Raises LadderError where it is truncated, no JSON, of another schema version, or not what its digest is of.
    """
    try:
        text = UNPACKED.get(path.suffix, bytes)(path.read_bytes()).decode()
        record = json.loads(text)
    except (ValueError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise damaged(path, error) from None
    if _of_this_version(record, path).pop(_DIGEST, None) is not None and text != _signed(_unsigned(text)):
        raise damaged(path, ValueError("its digest is that of another content"))
    return record


_DIGEST = "content_digest"  # the last key of a JSON record


def _signed(text: str) -> str:
    """The text of a JSON record with the digest of that text as its last line but one."""
    return f'{text[:-3]},\n"{_DIGEST}": "{digest(text)}"\n}}\n'


def _unsigned(text: str) -> str:
    return text.rpartition(f',\n"{_DIGEST}": ')[0] + "\n}\n"


def read_record(path: Path) -> dict[str, Any]:
    """`read_json` of a record of a stage; raises LadderError too where it is of another stage, rung or GPU."""
    record = read_json(path)
    require(path, record, RecordPlace.of(path))
    return record


def damaged(path: Path, error: Exception) -> LadderError:
    """The line for a record that cannot be read."""
    problem = str(error).splitlines()[0] if str(error) else type(error).__name__
    return LadderError(
        f"{path}: the record is damaged ({problem}); restore it with git checkout, or delete it to measure again"
    )


def _of_this_version(record: Any, path: Path) -> dict[str, Any]:
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version != SCHEMA_VERSION:
        raise LadderError(
            f"{path}: schema_version: {version!r} is not {SCHEMA_VERSION}; use the gemm-ladder that wrote the record, "
            "or delete it to measure again"
        )
    return record


def read_archive(path: Path, ending: str = "") -> dict[str, bytes]:
    """The members of a zip by name, those whose names end so.

    Raises LadderError where the archive is truncated or the checksum of one that is read is wrong.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.namelist() == [TOGETHER]:
                members = _unpacked_together(archive.read(TOGETHER))
                return {name: content for name, content in members.items() if name.endswith(ending)}
            return {name: archive.read(name) for name in archive.namelist() if name.endswith(ending)}
    except _DAMAGED_ARCHIVE as error:
        raise damaged(path, error) from None


def write_archive(path: Path, members: Mapping[str, bytes], together: bool = False) -> None:
    """Write a zip whose bytes depend on the members alone: of each of them, or of all `together` in one xz stream."""
    if together:
        members = {TOGETHER: _packed_together(members)}
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name in sorted(members):
                packed = zipfile.ZIP_BZIP2 if len(members[name]) > LONG else zipfile.ZIP_DEFLATED
                packed = zipfile.ZIP_STORED if together else packed  # it is packed already
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), members[name], packed, 9)
        file.seek(0)
        write_bytes(path, file.read())


def _packed_together(members: Mapping[str, bytes]) -> bytes:
    with io.BytesIO() as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            # those of one kind beside each other, for they are the most alike
            for name in sorted(members, key=lambda name: (name.rpartition(".")[2], name)):
                entry = tarfile.TarInfo(name)
                entry.size = len(members[name])
                archive.addfile(entry, io.BytesIO(members[name]))
        return PACKED[".xz"](file.getvalue())


def _unpacked_together(packed: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(UNPACKED[".xz"](packed))) as archive:
        files = {entry.name: archive.extractfile(entry) for entry in archive.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def made_by(path: Path) -> list[str]:
    """The UUIDs of the GPUs that made a record of any stage, those of its latest part last; empty where none is named.

    Raises LadderError where the record is damaged.
    """
    if path.suffix == ".zip":
        records = [run_record(files, path) for files in read_runs(path, "record.json").values()]
    else:
        records = [read_record(path)]
    return [gpu.get("uuid", "") for record in records for gpu in devices_of(record)]


FAILURE = "failure.json"  # in a time record: why the last attempt did not complete


def read_runs(path: Path, ending: str = "") -> dict[str, dict[str, bytes]]:
    """The runs in a time record, oldest first: for each its files by their name inside the run's folder.

    `ending` chooses files by how their names end. Raises LadderError where the archive is damaged.
    """
    runs: dict[str, dict[str, bytes]] = {}
    for name, content in sorted(read_archive(path, ending).items()):
        run, inside, file = name.partition("/")
        if inside:
            runs.setdefault(run, {})[file] = content
    return runs


def run_record(files: Mapping[str, bytes], path: Path, place: RecordPlace | None = None) -> dict[str, Any]:
    """The record.json of one run in the time record at a path, which is its place unless another is given.

    Raises LadderError where it is missing, no JSON, of another schema version, or of another rung or GPU.
    """
    try:
        record = _of_this_version(json.loads(files["record.json"]), path)
    except (KeyError, ValueError) as error:
        raise damaged(path, error) from None
    require(path, record, place or RecordPlace.of(path))
    return record


def read_failure(path: Path) -> dict[str, Any] | None:
    """Why the last attempt at a time record did not complete (message, build_digest), or None where it did."""
    members = read_archive(path)
    try:
        return json.loads(members[FAILURE]) if FAILURE in members else None
    except ValueError as error:
        raise damaged(path, error) from None


def add_run(path: Path, files: Mapping[str, bytes]) -> None:
    """Add a run to a time record, and drop runs of which it measured every shape again."""
    new = run_record(files, path)
    runs = read_runs(path) if path.exists() else {}
    kept = {n: old for n, old in runs.items() if set(run_record(old, path)["shapes"]) - set(new["shapes"])}
    name = new["where"]["measured_at"].replace(":", "-")
    while name in kept:  # two runs that ended in one second
        name += "+"
    kept[name] = dict(files)
    members = {f"{name}/{file}": content for name, of in kept.items() for file, content in of.items()}
    write_archive(path, members, together=True)


def conclude_timing(path: Path, message: str, build_digest: str) -> None:
    """End an attempt at a time record: note why it did not complete, or drop such a note; keep all measurements."""
    members = read_archive(path) if path.exists() else {}
    members.pop(FAILURE, None)
    if message:
        members[FAILURE] = to_json({"message": message, "build_digest": build_digest}).encode()
    write_archive(path, members, together=True)


def digest(*parts: bytes | str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 over the parts, each preceded by its length."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little") + data)
    return sha.hexdigest()[:16]


def digest_files(files: Iterable[Path], *more: str) -> str:
    """`digest` over the names and contents of files, and over more text."""
    return digest(*(part for file in files for part in (file.name, file.read_bytes())), *more)
