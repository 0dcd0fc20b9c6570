"""The experiment: condition, formation, freezing, asking, judging, scoring, statistics. Knows no pytest."""
