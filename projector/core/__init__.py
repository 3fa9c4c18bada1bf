"""The stream normaliser without I/O: decoding, projection of canonical events, lifecycle, and the pipeline."""
