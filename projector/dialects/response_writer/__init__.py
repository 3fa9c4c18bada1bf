"""What the dialects `openresponses` and `responses` have in common: both write a stream as one `response` object.

`WireProtocol` has the differences; each dialect has its own tables and README.
"""
