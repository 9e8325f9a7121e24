"""What AWS says of a release's repositories and of its signing key. Everything here only reads."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from slipway.doctor import OK, WARN, Finding
from slipway.ecr import Ecr
from slipway.errors import AuthError, RegistryError
from slipway.settings import Settings

PULLING = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
_PAGE = "docs/supply-chain.md"


def repositories(ecr: Ecr, names: Sequence[str], readers: Collection[str]) -> Finding:
    """How a region's repositories are encrypted, and whether their policies let the accounts in `readers` pull.

    Raises AuthError and RegistryError where ECR does not say.
    """
    told, closed, absent = [], [], []
    for name in names:
        found = ecr.repository(name)
        if found is None:
            absent.append(name)
            continue
        policy = ecr.policy(name) if readers else None
        out = [account for account in readers if not may_pull(policy, account)]
        told.append(f"{name}: encrypted with {found.encryption}")
        if out:
            closed.append(name)
            told.append(f"{name}: {'its policy does not let' if policy else 'no policy lets'} {', '.join(out)} pull")
    if absent:
        told.append(
            f"not made yet: {', '.join(absent)}; the release makes them, encrypted with AES256 and without a policy"
        )
    fix = ""
    if closed:
        fix = (
            f"aws ecr set-repository-policy --region {ecr.region} --repository-name {closed[0]} --policy-text "
            f"file://policy.json, and so each; the policy: {_PAGE}, Other accounts"
        )
    elif absent and readers:
        fix = f"make them before, with a policy: {_PAGE}, Other accounts"
    return Finding("repositories", WARN if fix else OK, "\n".join([f"{ecr.account} in {ecr.region}", *told]), fix)


def may_pull(policy: Mapping[str, Any] | None, account: str) -> bool:
    """Whether a repository's policy lets an account do all of PULLING. A statement with conditions lets nobody."""
    let = {"Allow": set[str](), "Deny": set[str]()}
    for statement in _listed((policy or {}).get("Statement")):
        concerned = _concerns(statement.get("Principal"), account)
        if concerned and (statement["Effect"] == "Deny" or "Condition" not in statement):
            patterns = [pattern.lower() for pattern in _listed(statement.get("Action"))]
            let[statement["Effect"]] |= {
                action for action in PULLING if any(fnmatchcase(action.lower(), one) for one in patterns)
            }
    return let["Allow"] - let["Deny"] == set(PULLING)


def signing_key(key: str, settings: Settings) -> Finding:
    """Whether a key of AWS KMS (awskms:///…) is there, enabled and one that signs."""
    fix = f"correct key: under signing: in release.yml; how to make one: {_PAGE}, Signing"
    try:
        with _speaking(key):
            found = _described(key, settings)
    except (AuthError, RegistryError) as error:
        return Finding("signing key", WARN, error.message, error.fix or fix)
    state, usage = found.get("KeyState", ""), found.get("KeyUsage", "")
    if state != "Enabled":
        return Finding("signing key", WARN, f"{key} is {state}", f"aws kms enable-key --key-id {found['KeyId']}")
    if usage != "SIGN_VERIFY":
        return Finding("signing key", WARN, f"{key} is for {usage}, which signs nothing", fix)
    return Finding("signing key", OK, f"{key}: {found.get('KeySpec', '')}, enabled, {usage}")


def _described(key: str, settings: Settings) -> Mapping[str, Any]:
    """What KMS knows of awskms://[ENDPOINT]/KEY, asked as cosign does: with this command's own credentials, no role."""
    import boto3
    from botocore.config import Config

    host, _, name = key.removeprefix("awskms://").partition("/")
    endpoint = settings.aws_endpoint("kms") or (f"https://{host}" if host else None)
    region = name.split(":")[3] if name.startswith("arn:") else None
    session: Any = boto3.session.Session(region_name=region)
    config = Config(connect_timeout=10, read_timeout=30, retries={"mode": "standard", "max_attempts": 3})
    found: Mapping[str, Any] = session.client("kms", endpoint_url=endpoint, config=config).describe_key(KeyId=name)
    return dict(found["KeyMetadata"])


@contextlib.contextmanager
def _speaking(key: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        told = error.response.get("Error", {})
        code, text = str(told.get("Code", "")), str(told.get("Message", ""))
        if code == "NotFoundException":
            raise RegistryError(f"AWS KMS has no {key}: {text}") from None
        raise AuthError(
            f"AWS KMS does not say what {key} is: {text} ({code})",
            fix="a release needs kms:Sign, kms:GetPublicKey and kms:DescribeKey on it",
        ) from None
    except BotoCoreError as error:
        raise RegistryError(
            f"AWS KMS does not say what {key} is: {error}", fix="log in, set a region, or name the key by its ARN"
        ) from None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _concerns(principal: Any, account: str) -> bool:
    """Whether a statement speaks of an account as a whole, and not of one of its roles."""
    given = _listed(principal.get("AWS")) if isinstance(principal, dict) else _listed(principal)
    return any(
        one in ("*", account) or (one.startswith("arn:") and one.endswith(f":iam::{account}:root")) for one in given
    )
