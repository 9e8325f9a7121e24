"""AWS's own Hugging Face training images: what accelerate, through SDK v2, takes where image_uri is empty.

Source: image_uri_config/huggingface.json of the SageMaker Python SDK 2.257.7. All of them are for GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from slipway.clients.accelerate import Config
from slipway.errors import NotFoundError, nearest

_ACCOUNT = "763104351884"
_ACCOUNTS = {
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-northeast-3": "364406365360",
    "ap-south-2": "772153158452",
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ca-west-1": "204538143572",
    "cn-north-1": "727897471807",
    "cn-northwest-1": "727897471807",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "us-gov-east-1": "446045086412",
    "us-gov-west-1": "442386744353",
    "us-iso-east-1": "886529160074",
    "us-isob-east-1": "094389454867",
}
_DOMAINS = {"cn": "amazonaws.com.cn", "us-iso": "c2s.ic.gov", "us-isob": "sc2s.sgov.gov"}


@dataclass(frozen=True)
class _Image:
    transformers: str
    pytorch: str
    python: str
    system: str = ""  # the oldest do not name theirs

    @property
    def tag(self) -> str:
        system = f"-{self.system}" if self.system else ""
        return f"{self.pytorch}-transformers{self.transformers}-gpu-{self.python}{system}"


# Oldest first.
_IMAGES = (
    _Image("4.4.2", "1.6.0", "py36"),
    _Image("4.5.0", "1.6.0", "py36"),
    _Image("4.6.1", "1.6.0", "py36", "cu110-ubuntu18.04"),
    _Image("4.6.1", "1.7.1", "py36", "cu110-ubuntu18.04"),
    _Image("4.6.1", "1.8.1", "py36", "cu111-ubuntu18.04"),
    _Image("4.10.2", "1.8.1", "py36", "cu110-ubuntu18.04"),
    _Image("4.10.2", "1.9.0", "py38", "cu111-ubuntu20.04"),
    _Image("4.11.0", "1.9.0", "py38", "cu111-ubuntu20.04"),
    _Image("4.12.3", "1.9.1", "py38", "cu111-ubuntu20.04"),
    _Image("4.17.0", "1.10.2", "py38", "cu113-ubuntu20.04"),
    _Image("4.26.0", "1.13.1", "py39", "cu117-ubuntu20.04"),
    _Image("4.28.1", "2.0.0", "py310", "cu118-ubuntu20.04"),
    _Image("4.36.0", "2.1.0", "py310", "cu121-ubuntu20.04"),
    _Image("4.46.1", "2.3.0", "py311", "cu121-ubuntu20.04"),
    _Image("4.48.0", "2.3.0", "py311", "cu121-ubuntu20.04"),
    _Image("4.49.0", "2.5.1", "py311", "cu124-ubuntu22.04"),
    _Image("4.55.0", "2.7.1", "py312", "cu128-ubuntu22.04"),
    _Image("4.56.2", "2.8.0", "py312", "cu129-ubuntu22.04"),
)


def image_uri(config: Config) -> str:
    """The newest of AWS's images that fits the versions of a configuration, if they were chosen, else the newest.

    Raises NotFoundError.
    """
    left = list(_IMAGES)
    wanted = {
        "pytorch_version": (config.pytorch_version, "pytorch"),
        "transformers_version": (config.transformers_version, "transformers"),
        "py_version": (config.py_version, "python"),
    }
    for key, (version, attribute) in wanted.items():
        if key not in config.given or not config.versions_are_chosen:
            continue
        has = {image: str(getattr(image, attribute)) for image in left}
        left = [image for image, value in has.items() if value == version or value.startswith(f"{version}.")]
        if not left:
            raise NotFoundError(
                f"AWS has no Hugging Face image with {key} {version}", fix=nearest(version, has.values())
            )
    region = config.region
    prefix = next((each for each in ("us-isob", "us-iso", "cn") if region.startswith(each + "-")), "")
    host = f"{_ACCOUNTS.get(region, _ACCOUNT)}.dkr.ecr.{region}.{_DOMAINS.get(prefix, 'amazonaws.com')}"
    return f"{host}/huggingface-pytorch-training:{left[-1].tag}"
