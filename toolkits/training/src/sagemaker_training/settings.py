"""The toolkit's own switches, read from the environment in one place.

Each switch is opt-in: without it the toolkit behaves as the reference toolkit does.
"""

from __future__ import annotations

import os

from sagemaker_training import errors

JSON_ARGUMENTS = "SLIPWAY_JSON_ARGUMENTS"
SHELL_REQUIREMENTS = "SLIPWAY_SHELL_REQUIREMENTS"
INSTALLER = "SLIPWAY_INSTALLER"
DEFAULT_RESOURCE_CONFIG = "SLIPWAY_DEFAULT_RESOURCE_CONFIG"
DNS_TIMEOUT = "SLIPWAY_DNS_TIMEOUT"
HOST_TIMEOUT = "SLIPWAY_HOST_TIMEOUT"
STOP_GRACE = "SLIPWAY_STOP_GRACE"

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("", "0", "false", "no", "off")


def _flag(name: str) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise errors.ClientError(f"{name}={value!r}: use true or false.")


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    # The upper bound also refuses inf and nan, which no wait can honour.
    if not 0 <= value <= 86400:
        raise errors.ClientError(f"{name}={text!r}: use a number of seconds from 0 to 86400.")
    return value


def check() -> None:
    """Raises one ClientError that names every switch with a wrong value."""
    faults = []
    for read in (
        json_arguments,
        shell_requirements,
        default_resource_config,
        installer,
        dns_timeout,
        host_timeout,
        stop_grace,
    ):
        try:
            read()
        except errors.ClientError as error:
            faults.append(str(error))
    if faults:
        raise errors.ClientError(" ".join(faults))


def json_arguments() -> bool:
    """Lists and objects reach the command line as JSON, not as Python text."""
    return _flag(JSON_ARGUMENTS)


def shell_requirements() -> bool:
    """requirements.txt is installed for shell entry points too."""
    return _flag(SHELL_REQUIREMENTS)


def default_resource_config() -> bool:
    """A missing resourceconfig.json means one host, algo-1."""
    return _flag(DEFAULT_RESOURCE_CONFIG)


def installer() -> str:
    """``pip`` or ``uv``."""
    value = os.environ.get(INSTALLER, "").strip().lower() or "pip"
    if value not in ("pip", "uv"):
        raise errors.ClientError(f"{INSTALLER}={value!r}: use pip or uv.")
    return value


def dns_timeout() -> float:
    """Seconds to wait for the names of the other hosts."""
    return _seconds(DNS_TIMEOUT, 900.0)


def host_timeout() -> float:
    """Seconds in which the other hosts of a torchrun job must have reported; torchrun itself gives up after 600."""
    return _seconds(HOST_TIMEOUT, 300.0)


def stop_grace() -> float:
    """Seconds between SIGTERM and SIGKILL for the script; the platform itself kills after 120."""
    return _seconds(STOP_GRACE, 110.0)
