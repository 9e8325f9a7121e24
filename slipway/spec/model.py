"""The matrix as plain frozen data: what `buildspec/` says, one Image for each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from slipway.spec import naming

SCOPES = ("training", "inference")
PROCESSORS = ("cpu", "gpu")
ARCHITECTURES = ("amd64", "arm64")


@dataclass(frozen=True, kw_only=True)
class Image:
    """One cell of the matrix. `excluded` holds the reason when it is not to be built, else nothing."""

    framework: str
    stack: str
    version: str  # of the framework; where the stack stands on another one, of that one's
    scope: str
    processor: str
    python: str
    os: str
    family: str = ""  # a name that frameworks share
    library: str = ""  # whose version the tag names beside the framework's
    library_version: str = ""
    below: Image | None = None  # the cell of the stack that this one's stands on
    architecture: str = "amd64"
    cuda: str = ""
    cuda_architectures: tuple[str, ...] = ()  # that the framework was compiled for: `sm_80`, `compute_90`
    packages: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # "common" (the processor's in it), scope's own
    layers: tuple[tuple[str, ...], ...] = ()  # patterns of packages with a layer of their own, lowest first
    leave_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # paths below site-packages, by package
    without: Mapping[str, str] = field(default_factory=dict)  # packages that are missed, and why they are not there
    system_packages: tuple[str, ...] = ()  # Debian's, beside those of the base
    toolkit: str = "slipway"  # what answers SageMaker: "slipway", "aws", "none"
    toolkits: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    wheel_index: str = ""
    ceiling_mb: int = 0  # uncompressed; 0: none
    compressed_ceiling_mb: int = 0
    ceiling_reason: str = ""
    supported_until: str = ""
    newest: bool = False  # of the newest stack of its framework
    excluded: str = ""
    file: str = ""
    lines: tuple[tuple[int, int], ...] = ()  # of `file`: those that decide this image

    @property
    def release(self) -> str:
        """What the names call its version: `2.13.0`, `2.13.0-transformers5.24.0`."""
        return f"{self.version}-{self.library}{self.library_version}" if self.library else self.version

    @property
    def ground(self) -> tuple[Image, ...]:
        """Cells whose stacks' packages it holds: those that it stands on, lowest first, and itself."""
        return (*(self.below.ground if self.below else ()), self)

    @cached_property
    def id(self) -> str:
        return naming.image_id(
            self.framework, self.scope, self.release, self.processor, self.python, self.cuda, self.architecture
        )

    @cached_property
    def stack_id(self) -> str:
        return naming.stack_id(self.framework, self.release, self.processor, self.python, self.cuda, self.architecture)

    @property
    def repository(self) -> str:
        return naming.repository(self.framework, self.scope)

    @cached_property
    def tag(self) -> str:
        return naming.tag(self.release, self.processor, self.python, self.cuda, self.os, self.architecture)

    @property
    def reference(self) -> str:
        """Its name in the engine."""
        return f"{self.repository}:{self.tag}-dev"

    @property
    def platform(self) -> str:
        return f"linux/{self.architecture}"

    @property
    def default(self) -> bool:
        """Whether a framework alone, without further selectors, means this image too."""
        return self.newest and self.processor == "cpu" and self.architecture == "amd64" and not self.excluded


@dataclass(frozen=True)
class Matrix:
    """Every cell, excluded ones too, in the order of the files."""

    images: tuple[Image, ...]

    @property
    def buildable(self) -> tuple[Image, ...]:
        return tuple(image for image in self.images if not image.excluded)


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The contents that decide images, read once: planning and rendering look at nothing else.

    `templates` and `locks` map a name to its text (`locks` by "<stack id>/<part>"), `toolkits` maps a toolkit's name to
    its files (path -> content).
    """

    templates: Mapping[str, str]
    locks: Mapping[str, str]
    toolkits: Mapping[str, Mapping[str, bytes]]
