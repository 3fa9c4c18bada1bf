"""What the wire promises: vocabulary, limits, models, rules. Imports nothing of ours."""
