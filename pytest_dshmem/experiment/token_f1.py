"""Token F1 between hypothesis and gold: an auxiliary figure, never a verdict.

After SQuAD (Rajpurkar et al. 2016) and LoCoMo (Maharana et al. 2024), written anew and without LoCoMo's
Porter stemmer, so that figures are close to LoCoMo's published ones and not equal to them.
"""

import re
import string
from collections import Counter
from typing import Literal

F1Rule = Literal["plain", "locomo"]

_DROPPED = re.compile(r"\b(a|an|the|and)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def token_f1(hypothesis: str, gold: str, category: str, rule: F1Rule = "plain") -> float:
    """F1 of one answer, 0 to 1.

    `locomo` adds that data set's rules: of an open-domain gold only the part before `;` counts, and a
    multi-hop gold is a comma-separated list of sub-answers, each matched with the hypothesis's best part.
    """
    if rule == "locomo" and category == "open-domain":
        gold = gold.split(";")[0]
    if rule == "locomo" and category == "multi-hop":
        parts = hypothesis.split(",")
        best = [max(_f1(part, wanted) for part in parts) for wanted in gold.split(",")]
        return sum(best) / len(best)
    return _f1(hypothesis, gold)


def normalised_tokens(text: str) -> list[str]:
    """Lower case, no punctuation, no articles, and as LoCoMo has it no "and"."""
    return _DROPPED.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _f1(hypothesis: str, gold: str) -> float:
    said, wanted = Counter(normalised_tokens(hypothesis)), Counter(normalised_tokens(gold))
    shared = (said & wanted).total()
    return 2 * shared / (said.total() + wanted.total()) if shared else 0.0
