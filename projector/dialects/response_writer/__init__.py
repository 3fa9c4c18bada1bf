"""What the dialects `openresponses` and `responses` have in common: both write a stream as one `response` object.

`protocol.py` lists where they differ; each dialect has its own tables, models and README.
"""
