"""Names that the platform, its SDKs and user scripts agree on."""

SAGEMAKER_PREFIX = "sagemaker_"

# Known reserved hyperparameters and the environment variables that stand in for them.
USER_PROGRAM_PARAM = "sagemaker_program"
USER_PROGRAM_ENV = "SAGEMAKER_PROGRAM"
SUBMIT_DIR_PARAM = "sagemaker_submit_directory"
SUBMIT_DIR_ENV = "SAGEMAKER_SUBMIT_DIRECTORY"
LOG_LEVEL_PARAM = "sagemaker_container_log_level"
LOG_LEVEL_ENV = "SAGEMAKER_CONTAINER_LOG_LEVEL"
JOB_NAME_PARAM = "sagemaker_job_name"
JOB_NAME_ENV = "SAGEMAKER_JOB_NAME"
REGION_NAME_PARAM = "sagemaker_region"
REGION_NAME_ENV = "SAGEMAKER_REGION"
S3_OUTPUT_LOCATION_PARAM = "sagemaker_s3_output"
S3_OUTPUT_LOCATION_ENV = "SAGEMAKER_S3_OUTPUT"
ENABLE_METRICS_PARAM = "sagemaker_enable_cloudwatch_metrics"
ENABLE_METRICS_ENV = "SAGEMAKER_ENABLE_CLOUDWATCH_METRICS"
TUNING_METRIC_PARAM = "_tuning_objective_metric"
DEFAULT_MODULE_NAME_PARAM = "default_user_module_name"

SAGEMAKER_HYPERPARAMETERS = (
    USER_PROGRAM_PARAM,
    SUBMIT_DIR_PARAM,
    ENABLE_METRICS_PARAM,
    REGION_NAME_PARAM,
    LOG_LEVEL_PARAM,
    JOB_NAME_PARAM,
    DEFAULT_MODULE_NAME_PARAM,
    TUNING_METRIC_PARAM,
    S3_OUTPUT_LOCATION_PARAM,
)

# The script's whole argument vector, as a JSON list of strings. Present, it replaces
# the options that are made from hyperparameters.
ARGV_PARAM = "sagemaker_slipway_argv"

# Launchers. "ENV_NAME" is the historical name: these are hyperparameter keys, and their
# upper-case forms work as environment variables.
LAUNCH_MPI_ENV_NAME = "sagemaker_mpi_enabled"
LAUNCH_SMDATAPARALLEL_ENV_NAME = "sagemaker_distributed_dataparallel_enabled"
LAUNCH_PYTORCH_DDP_ENV_NAME = "sagemaker_pytorch_ddp_enabled"
LAUNCH_TORCH_DISTRIBUTED_ENV_NAME = "sagemaker_torch_distributed_enabled"
LAUNCH_PYTORCH_XLA_ENV_NAME = "sagemaker_pytorch_xla_multi_worker_enabled"
LAUNCH_PS_ENV_NAME = "sagemaker_parameter_server_enabled"
LAUNCH_MWMS_ENV_NAME = "sagemaker_multi_worker_mirrored_strategy_enabled"

LAUNCH_ENV_NAMES = (
    LAUNCH_MPI_ENV_NAME,
    LAUNCH_PYTORCH_DDP_ENV_NAME,
    LAUNCH_TORCH_DISTRIBUTED_ENV_NAME,
    LAUNCH_SMDATAPARALLEL_ENV_NAME,
    LAUNCH_PYTORCH_XLA_ENV_NAME,
    LAUNCH_PS_ENV_NAME,
    LAUNCH_MWMS_ENV_NAME,
)

MPI_ENABLED = LAUNCH_MPI_ENV_NAME
MPI_PROCESSES_PER_HOST = "sagemaker_mpi_num_of_processes_per_host"
MPI_NUM_PROCESSES = "sagemaker_mpi_num_processes"
MPI_CUSTOM_OPTIONS = "sagemaker_mpi_custom_mpi_options"
SMDATAPARALLEL_CUSTOM_OPTIONS = "sagemaker_distributed_dataparallel_custom_mpi_options"
PARAMETER_SERVER_ENABLED = LAUNCH_PS_ENV_NAME
DISTRIBUTION_INSTANCE_GROUPS = "sagemaker_distribution_instance_groups"
SAGEMAKER_INSTANCE_TYPE = "sagemaker_instance_type"
SAGEMAKER_NETWORK_INTERFACE_NAME = "sagemaker_network_interface_name"
NATIVE_LAUNCHER_ENABLED = "sagemaker_toolkit_native_launcher_enabled"

SAGEMAKER_PARAMETER_SERVER_ENABLED = "SAGEMAKER_PARAMETER_SERVER_ENABLED"
SAGEMAKER_DISTRIBUTED_DATAPARALLEL_ENABLED = "SAGEMAKER_DISTRIBUTED_DATAPARALLEL_ENABLED"
SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED = "SAGEMAKER_MULTI_WORKER_MIRRORED_STRATEGY_ENABLED"

# Environment variables of the platform and of the toolkit itself.
BASE_PATH_ENV = "SAGEMAKER_BASE_DIR"
CURRENT_HOST_ENV = "CURRENT_HOST"
TRAINING_JOB_ENV = "TRAINING_JOB_NAME"
FRAMEWORK_TRAINING_MODULE_ENV = "SAGEMAKER_TRAINING_MODULE"
CODEARTIFACT_REPOSITORY_ARN_ENV = "CA_REPOSITORY_ARN"
STUDIO_LOCAL_MODE_ENV = "SM_STUDIO_LOCAL_MODE"
MODEL_PARALLEL_ENV = "SM_HP_MP_PARAMETERS"

DEFAULT_HOMOGENEOUS_GROUP = "homogeneousCluster"
