"""The one error of judging."""


class JudgeError(Exception):
    """Judging that cannot start or go on: what is wrong, where, and what to do about it, in one sentence."""
