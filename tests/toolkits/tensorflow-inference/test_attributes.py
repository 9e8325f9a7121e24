"""X-Amzn-SageMaker-Custom-Attributes."""

from __future__ import annotations

import pytest
from sagemaker_tensorflow_serving_container.attributes import AttributeFault, Attributes, parse


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, Attributes()),
        ("", Attributes()),
        ("free text, a=b, c09c7…", Attributes()),
        ("tfs-model-name=half", Attributes("half")),
        ("tfs-model-version=007", Attributes(None, 7)),
        ("tfs-method=regress", Attributes(method="regress")),
        ("tfs-method=classify,other,tfs-model-version=2, tfs-model-name=a.b-c_d", Attributes("a.b-c_d", 2, "classify")),
        (" tfs-model-name = half ,TFS-Method=predict", Attributes("half")),
    ],
)
def test_attributes_are_read_in_any_order_and_other_text_is_left_alone(header, expected):
    assert parse(header) == expected


@pytest.mark.parametrize(
    "header",
    [
        "tfs-model-name=../secret",
        "tfs-model-name=a/b",
        "tfs-model-name=",
        "tfs-model-name=-a",
        "tfs-model-name=a:predict",
        "tfs-model-name=é",
        "tfs-model-version=1.0",
        "tfs-model-version=-1",
        "tfs-model-version=²",
        "tfs-model-version=" + "9" * 30,
        "tfs-method=metadata",
        "tfs-method=",
        "tfs-method=PREDICT",
        "tfs-model-name=a,tfs-model-name=b",
    ],
)
def test_values_that_cannot_be_used_are_refused(header):
    with pytest.raises(AttributeFault):
        parse(header)


def test_every_wrong_value_is_named_with_what_to_use():
    with pytest.raises(AttributeFault) as caught:
        parse("tfs-method=walk,tfs-model-version=x,tfs-model-name=%2e")
    text = str(caught.value)
    assert "tfs-method='walk': use predict, classify or regress" in text
    assert "tfs-model-version='x': use digits" in text
    assert "tfs-model-name='%2e': use letters" in text
