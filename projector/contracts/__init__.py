"""The public contract: vocabulary, limits, models, rules. Imports no other package of this project."""
