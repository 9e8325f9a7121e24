"""Images and audio as the pipelines take them, whether they came as bodies or inside JSON.

Inside JSON they are addresses (http, https) or base64, with or without ``data:…;base64,``. Never paths: a request must
not name files of the container.
"""

from __future__ import annotations

import base64
import binascii
import io
import shutil
from collections.abc import Callable, Mapping
from typing import Any

from sagemaker_inference import errors

from sagemaker_huggingface_inference_toolkit import decoder_encoder, tasks

_IMAGE_KEYS = ("image", "images")
_ADDRESSES = ("http://", "https://")


def prepare(task: str | None, inputs: Any, pipeline: Any) -> Any:
    """The inputs of a request with every image or sound of it decoded. Raises UndecodableError (400).

    pipeline: whose sampling rate sounds get.
    """
    if task in tasks.AUDIO_TASKS:
        rate = getattr(getattr(pipeline, "feature_extractor", None), "sampling_rate", None) or 16000
        return _each(inputs, lambda item: _sound(item, rate))
    if task in tasks.IMAGE_TASKS:
        return _each(inputs, _image)
    return inputs


def _each(inputs: Any, decode: Callable[[Any], Any]) -> Any:
    if isinstance(inputs, (list, tuple)) and any(isinstance(item, (str, bytes, Mapping)) for item in inputs):
        return [_each(item, decode) for item in inputs]
    if isinstance(inputs, Mapping):
        return {
            key: _each(value, decode) if key in _IMAGE_KEYS and not _is_chat(inputs) else value
            for key, value in inputs.items()
        }
    return decode(inputs)


def _is_chat(inputs: Mapping[str, Any]) -> bool:
    return "role" in inputs


def _image(item: Any) -> Any:
    """A PIL image; an address as it is, since the pipelines fetch those."""
    if isinstance(item, str):
        if item.startswith(_ADDRESSES):
            return item
        item = _base64(item, "an image")
    if isinstance(item, (bytes, bytearray)):
        return decoder_encoder.decode_image(item)["inputs"]
    return item


def _sound(item: Any, rate: int) -> Any:
    """Samples at a rate, one channel, as an array; an address as it is."""
    if isinstance(item, str):
        if item.startswith(_ADDRESSES):
            return item
        item = _base64(item, "audio")
    if isinstance(item, list):
        import numpy

        return numpy.asarray(item, dtype=numpy.float32)
    return decode_sound(bytes(item), rate) if isinstance(item, (bytes, bytearray)) else item


def decode_sound(content: bytes, rate: int) -> Any:
    """A float32 array of samples at a rate (per second), the channels mixed. Raises UndecodableError (400).

    By ffmpeg where the image has it, which knows every format; else by soundfile; else only WAV can be read.
    """
    if shutil.which("ffmpeg"):
        from transformers.pipelines.audio_utils import ffmpeg_read

        try:
            return ffmpeg_read(content, rate).copy()
        except ValueError as error:
            raise errors.UndecodableError("This is no audio that ffmpeg can read.") from error
    try:
        samples, given = _read_sound(content)
    except (ValueError, EOFError, RuntimeError) as error:
        reason = str(error).rpartition(">: ")[2].rstrip(".")
        raise errors.UndecodableError(f"This is no audio that the image can read: {reason}.") from error
    return resample(samples.mean(axis=1), given, rate)


def _read_sound(content: bytes) -> tuple[Any, int]:
    """Samples [time, channels] as float32, and their rate."""
    try:
        import soundfile
    except (ImportError, OSError):
        return _read_wav(content)
    samples, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    return samples, rate


def _read_wav(content: bytes) -> tuple[Any, int]:
    import wave

    import numpy

    try:
        with wave.open(io.BytesIO(content)) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            frames = file.readframes(file.getnframes())
    except wave.Error as error:
        raise ValueError(f"{error}; without ffmpeg and soundfile only plain WAV is read") from error
    if width == 1:
        samples = (numpy.frombuffer(frames, numpy.uint8).astype(numpy.float32) - 128) / 128
    elif width in (2, 4):
        samples = numpy.frombuffer(frames, f"<i{width}").astype(numpy.float32) / float(1 << (8 * width - 1))
    else:
        raise ValueError(f"samples of {width} bytes need ffmpeg or soundfile")
    return samples.reshape(-1, channels), rate


def resample(samples: Any, given: int, wanted: int) -> Any:
    """The same sound at another rate: what lies above half the lower rate is cut off, in the frequency domain."""
    import numpy

    if given == wanted or not len(samples):
        return numpy.ascontiguousarray(samples, dtype=numpy.float32)
    length = max(round(len(samples) * wanted / given), 1)
    spectrum = numpy.fft.rfft(samples)
    kept = min(len(spectrum), length // 2 + 1)
    shaped = numpy.zeros(length // 2 + 1, dtype=spectrum.dtype)
    shaped[:kept] = spectrum[:kept]
    return (numpy.fft.irfft(shaped, length) * (length / len(samples))).astype(numpy.float32)


def _base64(text: str, what: str) -> bytes:
    _, comma, rest = text.partition(",")
    try:
        return base64.b64decode(rest if text.startswith("data:") and comma else text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise errors.UndecodableError(
            f"{text[:40]!r} is not {what}: give an http or https address, or base64."
        ) from error
