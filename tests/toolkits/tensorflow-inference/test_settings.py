"""TensorFlow's own variables."""

from __future__ import annotations

import pytest
from sagemaker_tensorflow_serving_container import settings
from sagemaker_tensorflow_serving_container.settings import Settings, SettingsError


def read(**variables):
    return Settings.read(variables, cpus=4)


def test_defaults():
    assert read() == Settings(
        batching=False,
        max_batch_size=8,
        batch_timeout_micros=1000,
        batch_threads=4,
        max_enqueued_batches=4,
        instances=None,
        gpu_margin=0.2,
        inter_op=0,
        intra_op=0,
        wait_seconds=300.0,
        default_model=None,
        bucket=None,
        prefix="",
        gunicorn_workers=None,
        timeout_seconds=None,
        log_level=None,
    )
    assert Settings.read({}).batch_threads >= 1


def test_a_batch_transform_queues_without_limit():
    assert read(SAGEMAKER_BATCH="True").max_enqueued_batches == 100_000_000
    assert read(SAGEMAKER_BATCH="true", SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES="7").max_enqueued_batches == 7


def test_every_variable_takes_effect():
    assert read(
        SAGEMAKER_TFS_ENABLE_BATCHING="TRUE",
        SAGEMAKER_TFS_MAX_BATCH_SIZE="1",
        SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS="0",
        SAGEMAKER_TFS_NUM_BATCH_THREADS="2",
        SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES="3",
        SAGEMAKER_TFS_INSTANCE_COUNT="4",
        SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN="0.5",
        SAGEMAKER_TFS_INTER_OP_PARALLELISM="5",
        SAGEMAKER_TFS_INTRA_OP_PARALLELISM="6",
        SAGEMAKER_TFS_WAIT_TIME_SECONDS="7.5",
        SAGEMAKER_TFS_DEFAULT_MODEL_NAME="half",
        SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET="bucket",
        SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX="prefix",
        SAGEMAKER_GUNICORN_WORKERS="8",
        SAGEMAKER_GUNICORN_TIMEOUT_SECONDS="90",
        SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS="120",
        SAGEMAKER_GUNICORN_LOGLEVEL="debug",
    ) == Settings(True, 1, 0, 2, 3, 4, 0.5, 5, 6, 7.5, "half", "bucket", "prefix", 8, 120.0, "debug")


def test_all_faults_are_named_at_once_with_variable_value_and_remedy():
    with pytest.raises(SettingsError) as caught:
        read(
            SAGEMAKER_TFS_ENABLE_BATCHING="1",
            SAGEMAKER_TFS_MAX_BATCH_SIZE="many",
            SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN="1.5",
            SAGEMAKER_TFS_INSTANCE_COUNT="-1",
            SAGEMAKER_GUNICORN_LOGLEVEL="loud",
        )
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "SAGEMAKER_TFS_ENABLE_BATCHING=1",
        "SAGEMAKER_TFS_MAX_BATCH_SIZE=many",
        "SAGEMAKER_TFS_INSTANCE_COUNT=-1",
        "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN=1.5",
        "SAGEMAKER_GUNICORN_LOGLEVEL=loud",
    ]
    assert all(": use " in line for line in lines)


def inherited(model_server=False, **variables):
    return Settings.read(variables, cpus=4).inherited(variables, model_server)


def test_nothing_is_inherited_where_nothing_is_set():
    assert inherited() == {}


def test_workers_follow_from_instances_and_processes():
    name = settings.WORKERS
    assert inherited(SAGEMAKER_TFS_INSTANCE_COUNT="2") == {name: "2"}
    assert inherited(SAGEMAKER_GUNICORN_WORKERS="3", SAGEMAKER_TFS_INSTANCE_COUNT="2") == {name: "3"}
    assert inherited(SAGEMAKER_TFS_INSTANCE_COUNT="2", SAGEMAKER_MODEL_SERVER_WORKERS="5") == {}
    assert inherited(model_server=True) == {name: "1"}


def test_one_time_limit_follows_from_the_largest_of_the_proxies():
    assert inherited(SAGEMAKER_GUNICORN_TIMEOUT_SECONDS="300") == {settings.TIMEOUT: "300"}
    both = {"SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "30", "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS": "600"}
    assert inherited(**both) == {settings.TIMEOUT: "600"}
    assert inherited(**both, SAGEMAKER_MODEL_SERVER_TIMEOUT="20") == {}


def test_the_wait_for_loading_and_the_log_level_are_inherited():
    assert inherited(SAGEMAKER_TFS_WAIT_TIME_SECONDS="60") == {settings.STARTUP_TIMEOUT: "60"}
    assert inherited(SAGEMAKER_GUNICORN_LOGLEVEL="debug") == {settings.LOG_LEVEL: "debug"}


def test_batching_in_this_process_is_the_base_toolkits():
    given = {"SAGEMAKER_TFS_ENABLE_BATCHING": "true", "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS": "20000"}
    assert inherited(**given) == {settings.BATCH_SIZE: "8", settings.BATCH_DELAY: "20"}
    assert inherited(model_server=True, **given) == {settings.WORKERS: "1"}


def test_what_is_inherited_can_be_read_by_the_base_toolkit():
    from sagemaker_inference.settings import Settings as Base

    derived = inherited(
        SAGEMAKER_TFS_INSTANCE_COUNT="2",
        SAGEMAKER_GUNICORN_TIMEOUT_SECONDS="90",
        SAGEMAKER_TFS_WAIT_TIME_SECONDS="60",
        SAGEMAKER_TFS_ENABLE_BATCHING="true",
        SAGEMAKER_GUNICORN_LOGLEVEL="debug",
    )
    base = Base.read(derived)
    assert (base.workers, base.timeout_seconds, base.startup_timeout_seconds) == (2, 90.0, 60.0)
    assert (base.batch_size, base.max_batch_delay_ms, base.log_level) == (8, 1.0, 10)


def test_what_has_no_effect_is_said():
    assert settings.notes({"SAGEMAKER_GUNICORN_THREADS": "4", "SAGEMAKER_TFS_INSTANCE_COUNT": "1"}) == [
        "SAGEMAKER_GUNICORN_THREADS has no effect: there is no such proxy."
    ]
