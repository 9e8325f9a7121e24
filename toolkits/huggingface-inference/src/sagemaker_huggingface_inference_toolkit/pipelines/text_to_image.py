"""Images from texts, by the package diffusers where the image has it."""

from __future__ import annotations

from typing import Any

from sagemaker_inference.logging import get_logger

from sagemaker_huggingface_inference_toolkit.pipelines.source import Source

logger = get_logger()


class TextToImage:
    """Called with a prompt; gives one PIL image, whatever number the request asks for."""

    def __init__(self, task: str, source: Source) -> None:
        self.task = task
        try:
            from diffusers import AutoPipelineForText2Image
        except ImportError as error:
            raise ImportError(
                "text-to-image needs the package diffusers, which this image does not have: name it in "
                f"code/requirements.txt. Python says: {error}"
            ) from error
        device, options = str(source.device), _options(source)
        self._pipeline = AutoPipelineForText2Image.from_pretrained(source.folder, **options)
        if "device_map" not in options:
            self._pipeline = self._pipeline.to(device)
        self._pipeline.set_progress_bar_config(disable=True)

    def __call__(self, inputs: str, **parameters: Any) -> Any:
        """parameters: of the diffusion pipeline, such as num_inference_steps. Raises TypeError and ValueError."""
        if not isinstance(inputs, str):
            raise TypeError("inputs must be a text")
        if parameters.pop("num_images_per_prompt", 1) != 1:
            logger.warning("num_images_per_prompt is not used: one image is made for each request.")
        seed = parameters.pop("seed", None)
        if seed is not None:
            import torch

            parameters["generator"] = torch.Generator("cpu").manual_seed(int(seed))
        return self._pipeline(prompt=inputs, num_images_per_prompt=1, **parameters).images[0]


def _options(source: Source) -> dict[str, Any]:
    """On GPUs half precision, and one model over several; on a CPU the weights as they are."""
    import torch

    options: dict[str, Any] = {}
    if torch.device(source.device).type == "cuda":
        options["torch_dtype"] = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        if source.device_map is not None:
            options["device_map"] = "balanced"  # the only map that diffusers knows
    return options
