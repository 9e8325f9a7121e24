"""A project of its own with the sources of this one, with small images that pass for cells of the matrix."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slipway import base as bases
from slipway import plan as plans
from slipway import settings
from slipway.records import Build, CheckResult, Records, Verdict
from slipway.spec import load
from slipway.verify import suite_hash

ROOT = Path(__file__).parents[2]
FOLDERS = ("buildspec", "dockerfiles", "toolkits", "slipway", "tests/contract", "tests/smoke")
FILES = ("tasks.py", "pyproject.toml")


@dataclass
class Project:
    """A folder in which `invoke` runs. Its images are a few kilobytes or megabytes, and go with `close`."""

    folder: Path
    prefix: str = field(default_factory=lambda: f"slipway-test-{secrets.token_hex(4)}")
    environment: dict[str, str] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A copy: hashes of it stay as they are, whoever works on the sources meanwhile.
        leave = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis", "dist")
        for name in (*FOLDERS, *FILES):
            source, target = ROOT / name, self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=leave)
            elif source.exists():
                shutil.copyfile(source, target)

    @property
    def records(self) -> Records:
        return Records(self.folder / ".slipway")

    @property
    def ledger(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((self.folder / "releases").glob("*.json"))]

    def configure(self, registries: dict[str, dict[str, Any]], **more: Any) -> None:
        """Write release.yml (JSON is YAML)."""
        text = json.dumps({"registries": registries, "prefix": self.prefix, "sbom": False, **more})
        (self.folder / "release.yml").write_text(text)

    def build(
        self,
        image: str,
        content: bytes,
        *,
        below: bytes = b"",
        proved: bool = True,
        files: Mapping[str, bytes] | None = None,
        packages: Mapping[str, int] | None = None,
    ) -> Build:
        """An image of one or two files in the engine, on record as the build and the proof of a cell of the matrix.

        `files` go into it beside them, by path; `packages` on record.
        """
        given = settings.read(project=self.folder, environment={})
        matrix, sources = load.load(self.folder), load.read_sources(self.folder)
        cell = next(one for one in matrix.images if one.id == image)
        base = bases.of(cell.os, base="bootstrap", mirror="", snapshot="")
        planned = plans.plan([cell], sources, {cell.os: base})
        reference = f"{self.prefix}/{cell.repository}:{secrets.token_hex(4)}"
        lines = ["FROM scratch", *(["COPY below /below"] if below else []), "COPY content /content", "LABEL a=b"]
        lines += ["COPY tree/ /"] if files else []
        members = [("Dockerfile", "\n".join(lines).encode()), ("below", below), ("content", content)]
        members += [(f"tree/{path}", data) for path, data in (files or {}).items()]
        context = io.BytesIO()
        with tarfile.open(fileobj=context, mode="w") as archive:
            for name, data in members:
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        meta = self.folder / "meta.json"
        words = ["docker", "buildx", "build", "--quiet", "--provenance=false", "--metadata-file", meta, "-t", reference]
        subprocess.run([*words, "-"], input=context.getvalue(), check=True, stdout=subprocess.DEVNULL)
        self.made.append(reference)
        told = json.loads(meta.read_text())
        build = Build(
            image=image,
            framework=cell.framework,
            version=cell.version,
            scope=cell.scope,
            processor=cell.processor,
            python=cell.python,
            repository=cell.repository,
            tag=cell.tag,
            reference=reference,
            config_digest=told["containerimage.config.digest"],
            engine_id=told["containerimage.digest"],
            input_hash=planned.input_hash(cell),
            size=len(content) + len(below),
            revision="0" * 40,
            created="2026-01-01T00:00:00Z",
            base="scratch",
            lock_hash="1" * 64,
            built_at=f"2026-01-01T00:00:{len(self.made):02d}.000+00:00",
            seconds=1.0,
            packages=packages or {},
        )
        self.records.add_build(build)
        if proved:
            check = CheckResult(id="channels", status="passed", seconds=1.0)
            self.records.add_verdict(
                Verdict(
                    config_digest=build.config_digest,
                    suite_hash=suite_hash(self.folder),
                    image=image,
                    reference=reference,
                    passed=True,
                    at="2026-01-01T00:00:00Z",
                    seconds=1.0,
                    checks=(check,),
                )
            )
        assert given.state == self.folder / ".slipway"
        return build

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "invoke", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def invoke(self, *words: str) -> subprocess.CompletedProcess[str]:
        child = self.start(*words)
        out, err = child.communicate(timeout=300)
        return subprocess.CompletedProcess(words, child.returncode, out, err)

    def told(self, *words: str) -> Any:
        """The JSON document of a command that must succeed."""
        done = self.invoke(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def journals(self) -> Sequence[dict[str, Any]]:
        found = sorted((self.folder / ".slipway/releases").glob("*/journal.json"))
        return [json.loads(path.read_text()) for path in found]

    def close(self) -> None:
        """Take the images out of the engine again."""
        if self.made:
            subprocess.run(["docker", "rmi", "--force", *self.made], check=False, capture_output=True)
        listed = subprocess.run(
            ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"], check=True, capture_output=True, text=True
        )
        left = [name for name in listed.stdout.splitlines() if self.prefix in name]
        assert not left, f"names are left in the engine: {left}"
