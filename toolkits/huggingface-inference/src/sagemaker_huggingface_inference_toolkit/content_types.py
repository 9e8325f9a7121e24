"""Names of media types, as users' scripts import them, and what kind of body each is."""

from __future__ import annotations

JSON = "application/json"
CSV = "text/csv"
JSONLINES = "application/jsonlines"
OCTET_STREAM = "application/octet-stream"
NPY = "application/x-npy"
ANY = "*/*"
UTF8_TYPES = [JSON, CSV]

X_IMAGE = "image/x-image"
JPEG = "image/jpeg"
PNG = "image/png"
TIFF = "image/tiff"
BMP = "image/bmp"
GIF = "image/gif"
WEBP = "image/webp"

X_AUDIO = "audio/x-audio"
FLAC = "audio/x-flac"
MP3 = "audio/mpeg"
WAV = "audio/wave"
OGG = "audio/ogg"

#: Pillow's name of each format; ``image/x-image`` is whatever the bytes are, and PNG in an answer.
IMAGE_FORMATS = {
    JPEG: "JPEG",
    "image/jpg": "JPEG",
    PNG: "PNG",
    TIFF: "TIFF",
    BMP: "BMP",
    GIF: "GIF",
    WEBP: "WEBP",
    X_IMAGE: "PNG",
}
AUDIO = frozenset(
    {X_AUDIO, FLAC, "audio/flac", MP3, "audio/mp3", WAV, "audio/wav", "audio/x-wav", OGG, "audio/webm", "audio/mp4"}
)
JSON_LINES = frozenset({JSONLINES, "application/x-jsonlines", "application/jsons"})
