"""A host of OpenWOP v1: runs that go on without their reader, their logs, and the routes that tell of them.

Off unless the configuration has a table `[openwop]`. What a run says is written by the dialect `openwop`, or planned by
`projector.openwop`; this package starts runs, keeps their logs within bounds, and answers.
"""
