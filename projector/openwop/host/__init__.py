"""HTTP host of OpenWOP v1: runs that continue without a reader, their event logs, and the routes to both.

Enabled by the table `[openwop]` (`projector.openwop.host.settings`). Events come from the dialect `openwop` for agents
and workflows, and from a plan for configured nodes.
"""
