"""A training job as SageMaker runs it."""

from __future__ import annotations

import json
from typing import Any

from slipway.verify.jobs import Finished

ML = "/opt/ml"


def test_job_completes(job: Finished) -> None:
    assert job.result.status == "Completed" and job.report, job.ending()


def test_job_variables(job: Finished) -> None:
    found = job.report["variables"]
    wanted: dict[str, Any] = {
        "CURRENT_HOST": "algo-1",
        "SM_CURRENT_HOST": "algo-1",
        "SM_CURRENT_INSTANCE_GROUP": "homogeneousCluster",
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": '["algo-1"]',
        "SM_CURRENT_INSTANCE_TYPE": "local",
        "SM_HOSTS": '["algo-1"]',
        "SM_INPUT_CONFIG_DIR": f"{ML}/input/config",
        "SM_INPUT_DIR": f"{ML}/input",
        "SM_INSTANCE_GROUPS": '["homogeneousCluster"]',
        "SM_IS_HETERO": "false",
        "SM_LOG_LEVEL": "20",
        "SM_MODEL_DIR": f"{ML}/model",
        "SM_MODULE_DIR": f"{ML}/code",
        "SM_MODULE_NAME": "train",
        "SM_NETWORK_INTERFACE_NAME": "eth0",
        "SM_NUM_GPUS": "0",
        "SM_NUM_NEURONS": "0",
        "SM_OUTPUT_DATA_DIR": f"{ML}/output/data",
        "SM_OUTPUT_DIR": f"{ML}/output",
        "SM_OUTPUT_INTERMEDIATE_DIR": f"{ML}/output/intermediate",
        "SM_USER_ENTRY_POINT": "train.py",
        "SAGEMAKER_REGION": "us-east-1",
        "TRAINING_JOB_NAME": job.result.name,
    }
    wrong = [
        f"{name} is {found[name]!r}, not {value!r}" if name in found else f"there is no {name}"
        for name, value in wanted.items()
        if found.get(name) != value
    ]
    documents = ("SM_FRAMEWORK_PARAMS", "SM_INPUT_DATA_CONFIG", "SM_INSTANCE_GROUPS_DICT", "SM_RESOURCE_CONFIG")
    for name in (*documents, "SM_HPS", "SM_TRAINING_ENV"):
        if not isinstance(decoded(found.get(name, "")), dict):
            wrong.append(f"{name} is no JSON object: {found.get(name)!r}"[:200])
    if not isinstance(decoded(found.get("SM_USER_ARGS", "")), list):
        wrong.append(f"SM_USER_ARGS is no JSON list: {found.get('SM_USER_ARGS')!r}")
    if not found.get("SM_NUM_CPUS", "").isdigit():
        wrong.append(f"SM_NUM_CPUS is no number: {found.get('SM_NUM_CPUS')!r}")
    if job.report["folder"] != f"{ML}/code":
        wrong.append(f"the script runs in {job.report['folder']}, not in {ML}/code")
    assert not wrong, "\n".join(wrong)


def decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
