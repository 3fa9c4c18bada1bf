"""Redaction: creates clean values from untrusted ones. No other package may create clean values."""
