"""Errors by whose fault they are: a ``ClientError`` is the job's, everything else the toolkit's."""

from __future__ import annotations

from typing import Optional, Sequence, Union


class ClientError(Exception):
    """The job is wrong: its script, its configuration, its source."""


class SMTrainingCompilerConfigurationError(Exception):
    """The XLA launcher cannot run in this container."""


class ChannelDoesNotExistError(Exception):
    """There is no such input channel."""

    def __init__(self, channel_name: str) -> None:
        super().__init__(f"There is no channel named {channel_name!r}.")


class UnsupportedFormatError(Exception):
    """No encoder for a content type."""

    def __init__(self, content_type: str) -> None:
        super().__init__(f"Content type {content_type!r} is not supported.")


class ImportModuleError(ClientError):
    """A module that the job names cannot be imported."""


class CalledProcessError(ClientError):
    """A process that the job needs ended badly.

    cmd is a command line or an argument vector. return_code follows ``subprocess``: negative is a signal. output is
    the text that explains the end (the tail of what the process wrote), info a hint by the toolkit.
    """

    def __init__(
        self,
        cmd: Union[str, Sequence[str]],
        return_code: Optional[int] = None,
        output: Union[str, bytes, None] = None,
        info: Optional[str] = None,
    ) -> None:
        super().__init__(cmd, return_code, output, info)
        self.cmd = cmd
        self.return_code = return_code
        self.output = output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""
        self.info = info or ""

    def __str__(self) -> str:
        from sagemaker_training import failures

        return failures.describe_process(self)


class InstallModuleError(CalledProcessError):
    """``pip install .`` failed."""


class InstallRequirementsError(CalledProcessError):
    """``pip install -r requirements.txt`` failed."""


class ExecuteUserScriptError(CalledProcessError):
    """The user's script ended with a non-zero exit code or by a signal."""
