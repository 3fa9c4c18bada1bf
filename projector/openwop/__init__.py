"""OpenWOP v1 (https://openwop.dev): the dialect `openwop`, a host of runs, and a client library.

Self-contained: nothing outside imports this package, and nothing of it is loaded unless it is configured. The dialect
is `projector.openwop.dialect:DIALECT`, the host `projector.openwop.host:EXTENSION`, the client library
`projector.openwop.client`.
"""
