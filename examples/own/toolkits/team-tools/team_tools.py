"""What the jobs of a team share."""


def greeting() -> str:
    return "from the team's toolkit"
