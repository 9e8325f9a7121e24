"""Code that every job of a team shares."""


def greeting() -> str:
    return "from the image"
