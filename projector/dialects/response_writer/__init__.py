"""What the dialects `openresponses` and `responses` have in common: both write a stream as one `response` object.

The class of each has the differences.
"""
