"""The pytest face: options, collection, fixtures, progress and summary. No science here."""
