import pytest

from slipway.engine.uploads import read_report
from slipway.errors import AuthError, RegistryError, TagConflictError

DIGEST = "sha256:" + "d" * 64
END = {"status": f"v1: digest: {DIGEST} size: 697"}


def read(*lines, progress=lambda sent, total: None):
    return read_report(iter(lines), "registry.example.com", "a", progress)


def test_bytes_are_those_of_layers_that_the_registry_lacked():
    seen = []
    done = read(
        {"status": "The push refers to repository [registry.example.com/a]"},
        {"status": "Waiting", "progressDetail": {}, "id": "111111111111"},
        {"status": "Layer already exists", "progressDetail": {}, "id": "222222222222"},
        {"status": "Pushing", "progressDetail": {"current": 5, "total": 50}, "id": "111111111111"},
        {"status": "Pushed", "progressDetail": {}, "id": "333333333333"},
        {"status": "Pushing", "progressDetail": {"current": 50, "total": 50}, "id": "111111111111"},
        END,
        {"progressDetail": {}, "aux": {"Tag": "v1"}},
        progress=lambda sent, total: seen.append((sent, total)),
    )
    assert done.digest == DIGEST
    assert seen == [(5, 50), (5, 50), (50, 50)]
    sizes = {f"sha256:{name * 64}": size for name, size in (("1", 48), ("2", 1000), ("3", 7))}
    # The manifest knows sizes exactly, small layers' too; a layer that it does not name counts as it was seen.
    assert done.bytes_sent(sizes) == 48 + 7
    assert done.bytes_sent({}) == 50


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("unexpected status from HEAD request to http://x/v2/a/blobs/sha256:1: 401 Unauthorized", AuthError),
        ("no basic auth credentials", AuthError),
        ("denied: User: arn:aws:sts::1:assumed-role/x is not authorized to perform: ecr:PutImage", AuthError),
        ("tag invalid: The image tag 'v1' already exists in the 'a' repository and is immutable", TagConflictError),
        ("name unknown: The repository with name 'a' does not exist in the registry with id '1'", RegistryError),
        ("failed to do request: Put http://x: EOF", RegistryError),
        ("received unexpected HTTP status: 503 Service Unavailable", RegistryError),
    ],
)
def test_a_line_that_tells_of_failure_raises(said, error):
    with pytest.raises(error) as caught:
        read({"errorDetail": {"message": said}, "error": said}, END)
    assert type(caught.value) is error
    assert said in str(caught.value)
    with pytest.raises(error):
        read({"error": said})


def test_a_report_without_a_digest_is_no_push():
    with pytest.raises(RegistryError, match="without a digest"):
        read({"status": "Pushed", "progressDetail": {}, "id": "333333333333"})
